#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "memory/memory.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(peaks_test)
namespace {

using Action = TensorEvent::Action;

constexpr MemoryDevice kPlain{.caching = false};
constexpr double kMiB = 1024 * 1024;

Op op(const std::string& label, std::vector<TensorEvent> memory) {
  Op result;
  result.of = label;
  result.memory = std::move(memory);
  return result;
}

TensorEvent take(std::size_t tensor) { return {TensorId(tensor), Action::take}; }
TensorEvent give(std::size_t tensor) { return {TensorId(tensor), Action::give}; }

double held(const MemoryForecast& forecast, MemoryKind kind) {
  return forecast.at_peak.by_kind[static_cast<std::size_t>(kind)].value();
}

bool says(const Error& error, const std::string& text) {
  BOOST_TEST(error.what() == text);
  return error.what() == text;
}

/// Two layers with 10 units of parameters: each keeps 4 of activations until its backward, which
/// makes 5 of gradients; the optimizer frees them.
Program two_layers(double unit = 1) {
  const auto tensor = [unit](MemoryKind kind, double size, std::uint32_t owner) {
    return Tensor{kind, Bytes(size * unit), owner};
  };
  return {.name = "worker",
          .lanes = {},
          .ops = {op("forward a", {take(1)}), op("forward b", {take(2)}),
                  op("backward b", {take(4), give(2)}), op("backward a", {take(3), give(1)}),
                  op("optimizer", {give(3), give(4)})},
          .tensors = {tensor(MemoryKind::parameters, 10, 0), tensor(MemoryKind::activations, 4, 0),
                      tensor(MemoryKind::activations, 4, 1), tensor(MemoryKind::gradients, 5, 0),
                      tensor(MemoryKind::gradients, 5, 1)},
          .owners = {"a", "b"},
          .setup = {take(0)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_takes_and_gives_back_in_order) {
  // Setup 10; forward a 14; forward b 18; backward b takes 5 (23) and gives 4 back (19);
  // backward a 24, then 20.
  const MemoryForecast forecast = forecast_memory(two_layers(), kPlain);
  BOOST_TEST(forecast.allocated_peak.value() == 24);
  BOOST_TEST(forecast.at_peak.total().value() == 24);
  BOOST_TEST(forecast.peak_op == 3u);
  BOOST_TEST(forecast.peak_label == "backward a");
  BOOST_TEST(held(forecast, MemoryKind::parameters) == 10);
  BOOST_TEST(held(forecast, MemoryKind::activations) == 4);
  BOOST_TEST(held(forecast, MemoryKind::gradients) == 10);
  BOOST_TEST(!forecast.reserved_peak.has_value());
  BOOST_TEST(forecast.fits());
}

BOOST_AUTO_TEST_CASE(the_peak_is_told_by_owner_and_kind_the_largest_first) {
  const std::vector<MemoryShare> shares = forecast_memory(two_layers(), kPlain).shares;
  BOOST_REQUIRE_EQUAL(shares.size(), 4U);
  BOOST_TEST(shares[0].owner == "a");
  BOOST_TEST((shares[0].kind == MemoryKind::parameters));
  BOOST_TEST(shares[0].size.value() == 10);
  BOOST_TEST(shares[0].tensors == 1u);
  BOOST_TEST(shares[3].size.value() == 4);
}

BOOST_AUTO_TEST_CASE(gradients_left_for_the_next_iteration_count_in_its_peak) {
  // zero_grad(set_to_none) between forward and backward: forward still holds the 10 of the
  // iteration before. The first round peaks at 24 in backward a (it has nothing to free), the
  // second at 10 + 10 + 8 = 28 in forward b.
  Program program = two_layers();
  program.ops[4].memory.clear();
  program.ops.insert(program.ops.begin() + 2, op("zero_grad", {give(3), give(4)}));
  const MemoryForecast forecast = forecast_memory(program, kPlain);
  BOOST_TEST(forecast.allocated_peak.value() == 28);
  BOOST_TEST(forecast.peak_label == "forward b");
}

BOOST_AUTO_TEST_CASE(what_is_taken_once_stays) {
  // Optimizer state of 20 in the first step: it stands in the second.
  Program program = two_layers();
  program.tensors.push_back({MemoryKind::optimizer_state, Bytes(20)});
  program.ops[4].memory.push_back({TensorId(5), Action::take, true});
  BOOST_TEST(forecast_memory(program, kPlain).allocated_peak.value() == 44);
}

BOOST_AUTO_TEST_CASE(what_stands_before_all_operations_has_no_label) {
  const Program program{.name = "idle",
                        .lanes = {},
                        .ops = {op("join", {})},
                        .tensors = {{MemoryKind::parameters, Bytes(7)}},
                        .owners = {"all"},
                        .setup = {take(0)}};
  const MemoryForecast forecast = forecast_memory(program, kPlain);
  BOOST_TEST(forecast.allocated_peak.value() == 7);
  BOOST_TEST(forecast.peak_label == "");
  BOOST_TEST(forecast.shares.size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_allocator_rounds_and_reserves) {
  // In MiB: setup 10 (a segment of its own), 4 and 4 of activations in one of 20, gradients of 5 in
  // what is left of that and in another.
  const MemoryForecast forecast = forecast_memory(two_layers(kMiB), MemoryDevice{});
  BOOST_TEST(forecast.allocated_peak.value() == 24 * kMiB);
  BOOST_TEST(forecast.reserved_peak->value() == 30 * kMiB);
  BOOST_TEST(forecast.stats.device_allocations == 2);
  // In bytes: every tensor is a block of 512 B in one segment.
  const MemoryForecast small = forecast_memory(two_layers(), MemoryDevice{});
  BOOST_TEST(small.allocated_peak.value() == 4 * 512);
  BOOST_TEST(small.reserved_peak->value() == 2 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_too_small_says_where_and_what_it_would_have_to_be) {
  const MemoryDevice tight{.capacity = Bytes(35 * kMiB), .outside = Bytes(5 * kMiB)};
  BOOST_TEST(forecast_memory(two_layers(kMiB), tight).fits());
  const MemoryDevice small{.capacity = Bytes(35 * kMiB), .outside = Bytes(6 * kMiB)};
  const MemoryForecast forecast = forecast_memory(two_layers(kMiB), small);
  BOOST_REQUIRE(!forecast.fits());
  BOOST_TEST(forecast.out_of_memory->at == "forward a");
  BOOST_TEST(forecast.out_of_memory->message.starts_with(
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 35.00 MiB of "
      "which 19.00 MiB is free."));
  BOOST_TEST(forecast.reserved_peak->value() == 30 * kMiB);
}

// 40 MiB that are free, and then 60: the cache alone would be 100, of which 80 are there. PyTorch
// gives the 40 back, and asks again.
BOOST_AUTO_TEST_CASE(a_cache_that_does_not_fit_is_given_back_and_the_run_fits) {
  const Program program{.name = "worker",
                        .lanes = {},
                        .ops = {op("narrow", {take(0), give(0)}), op("broad", {take(1), give(1)})},
                        .tensors = {{MemoryKind::activations, Bytes(40 * kMiB)},
                                    {MemoryKind::activations, Bytes(60 * kMiB)}},
                        .owners = {"all"}};
  BOOST_TEST(forecast_memory(program, MemoryDevice{}).reserved_peak->value() == 100 * kMiB);
  const MemoryForecast retried = forecast_memory(program, {.capacity = Bytes(80 * kMiB)});
  BOOST_TEST(retried.fits());
  BOOST_TEST(retried.stats.retries == 1);
  BOOST_TEST(retried.reserved_peak->value() == 60 * kMiB);
  BOOST_TEST(retried.allocated_peak.value() == 60 * kMiB);
  BOOST_TEST(!forecast_memory(program, {.capacity = Bytes(59 * kMiB)}).fits());
}

BOOST_AUTO_TEST_CASE(left_out_detail_leaves_the_peaks_as_they_are) {
  const MemoryDevice fits{.capacity = Bytes(35 * kMiB)}, small{.capacity = Bytes(29 * kMiB)};
  for (const MemoryDevice& device : {kPlain, fits, small}) {
    const MemoryForecast forecast = forecast_memory(two_layers(kMiB), device, PeakDetail::left_out);
    BOOST_TEST(forecast.allocated_peak.value() == 24 * kMiB);
    if (device.caching) BOOST_TEST(forecast.reserved_peak->value() == 30 * kMiB);
    BOOST_TEST(forecast.fits() == (device.capacity != small.capacity));
    BOOST_TEST(forecast.at_peak.total().value() == 0);
    BOOST_TEST(forecast.peak_label == "");
    BOOST_TEST(forecast.shares.empty());
  }
}

BOOST_AUTO_TEST_CASE(fractions_of_a_byte_are_rounded_up) {
  const Program program{.name = "worker",
                        .lanes = {},
                        .ops = {op("take", {take(0), give(0)})},
                        .tensors = {{MemoryKind::workspace, Bytes(1e9 / 3)}},
                        .owners = {"all"}};
  BOOST_TEST(forecast_memory(program, kPlain).allocated_peak.value() == 333333334);
}

BOOST_AUTO_TEST_CASE(giving_back_what_is_not_held_is_our_bug) {
  Program program = two_layers();
  program.ops[1].memory = {give(2)};
  program.ops[2].memory = {take(4)};
  BOOST_CHECK_EXCEPTION(
      forecast_memory(program, kPlain), InternalError, [](const InternalError& error) {
        return says(error,
                    "internal error: activations memory that is not held is given back at "
                    "\"forward b\"");
      });
}

BOOST_AUTO_TEST_CASE(taking_twice_is_our_bug) {
  Program program = two_layers();
  program.ops[1].memory = {take(1)};
  BOOST_CHECK_EXCEPTION(
      forecast_memory(program, kPlain), InternalError, [](const InternalError& error) {
        return says(error, "internal error: activations memory is taken twice at \"forward b\"");
      });
}

BOOST_AUTO_TEST_CASE(losing_what_an_iteration_began_with_is_our_bug) {
  Program program = two_layers();
  program.setup.push_back(take(1));
  program.ops[0].memory = {};
  BOOST_CHECK_EXCEPTION(
      forecast_memory(program, kPlain), InternalError, [](const InternalError& error) {
        return says(error,
                    "internal error: activations memory that is not held is given back at "
                    "\"backward a\"");
      });
}

BOOST_AUTO_TEST_CASE(the_stated_constants_are_500_mebibytes_and_10_for_each_connection) {
  BOOST_TEST(cuda_context().value() == 524288000);
  BOOST_TEST(communicator_buffers(true).value() == 480 * kMiB);
  BOOST_TEST(communicator_buffers(false).value() == 120 * kMiB);
}

BOOST_AUTO_TEST_SUITE_END()
