// What is measured of the device itself, and of the CPU that feeds it.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <limits>

#include "measure/device_rates.hpp"
#include "measure/step_runner.hpp"
#include "models/networks.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measure_device_test)
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

BOOST_AUTO_TEST_CASE(rates_are_those_of_the_formats_that_a_cpu_has) {
  const auto device = make_cpu_device();
  const DeviceRates rates = measure_rates(*device);
  BOOST_TEST(rates.fp32.value() > 1e8);
  BOOST_TEST(rates.bf16.value() > 0);
  BOOST_TEST(rates.tf32.value() == 0);
  BOOST_TEST(rates.fp16.value() == 0);
  BOOST_TEST(rates.memory_bandwidth.value() > 1e8);
  BOOST_TEST(rates.memory.value() > 5e8);
}

BOOST_AUTO_TEST_CASE(no_product_is_faster_than_the_rate) {
  // Both are measured while others may use the machine: a rate that is far too low is so each time.
  const auto device = make_cpu_device();
  const torch::Tensor matrix = torch::ones({400, 400});
  const double flops = 2 * 400.0 * 400 * 400;
  double most = std::numeric_limits<double>::infinity();  // of the rate
  for (int i = 0; i < 20 && most >= 3; ++i) {
    const DeviceRates rates = measure_rates(*device);
    torch::mm(matrix, matrix);
    most = flops / seconds_of([&] { torch::mm(matrix, matrix); }) / rates.fp32.value();
  }
  BOOST_TEST(most < 3);
}

/// The CPU in a GPU's role: calls are taken to launch work that is done later.
class LateDevice : public MeasuredDevice {
 public:
  torch::Device torch_device() const override { return torch::kCPU; }
  DeviceIdentity identity() const override { return {.name = "late"}; }
  Bytes memory() const override { return Bytes(0); }
  double multiprocessors() const override { return 1; }
  std::vector<Precision> formats() const override { return {}; }
  std::size_t mark() override { return 0; }
  Seconds between(std::size_t, std::size_t) override { return Seconds(0); }
  void forget_marks() override {}
  bool runs_behind() const override { return true; }
  void wait() override { ++waits; }
  Bytes live() const override { return Bytes(0); }
  Bytes peak() const override { return Bytes(0); }
  void reset_peak() override {}
  std::optional<Bytes> reserved_peak() const override { return Bytes(7); }
  void release_cached() override { ++releases; }

  int waits = 0, releases = 0;
};

BOOST_AUTO_TEST_CASE(launches_are_the_cpus_time_between_units) {
  LateDevice device;
  const Chain chain = build_chain("small_cnn", {.image = 32});
  const Batch batch = random_batch(chain.input, 2, torch::kCPU);
  StepRunner runner(chain, device, Precision::fp32);
  UnitLaunches launches;
  const double around = seconds_of([&] { launches = runner.time_launches(batch); });
  double sum = 0;
  for (std::size_t i = 0; i < chain.units.size(); ++i) {
    BOOST_TEST(launches.forward[i].value() > 0);
    BOOST_TEST(launches.backward[i].value() > 0);
    sum += launches.forward[i].value() + launches.backward[i].value();
  }
  BOOST_TEST(sum < around);
  BOOST_TEST(device.waits == 2 * (static_cast<int>(chain.units.size()) + 1));
}

BOOST_AUTO_TEST_CASE(a_call_that_is_the_work_launches_nothing) {
  const auto device = make_cpu_device();
  const Chain chain = build_chain("small_mlp", {.image = 8});
  StepRunner runner(chain, *device, Precision::fp32);
  const UnitLaunches launches = runner.time_launches(random_batch(chain.input, 2, torch::kCPU));
  for (const Seconds time : launches.forward) BOOST_TEST(time.value() == 0);
  for (const Seconds time : launches.backward) BOOST_TEST(time.value() == 0);
}

BOOST_AUTO_TEST_CASE(reserved_bytes_are_those_of_a_caching_allocator_alone) {
  LateDevice late;
  const auto device = make_cpu_device();
  const Chain chain = build_chain("small_mlp", {.image = 8});
  const Batch batch = random_batch(chain.input, 2, torch::kCPU);
  const auto optimizer = default_optimizer("sgd", parameters(chain));
  const StepPeak peak = StepRunner(chain, late, Precision::fp32).count_peak(batch, *optimizer);
  BOOST_REQUIRE(peak.reserved.has_value());
  BOOST_TEST(peak.reserved->value() == 7);
  BOOST_TEST(late.releases == 1);  // else it would hold what earlier steps needed
  BOOST_TEST(!StepRunner(chain, *device, Precision::fp32).count_peak(batch, *optimizer).reserved);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
