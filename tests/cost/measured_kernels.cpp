// Costs from a file of `rehearse calibrate kernels`: that of one core of an AMD EPYC, measured with
// LibTorch 1.13 beside other people's work, by the thread's own clock.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/data_folder.hpp"
#include "cost/cost.hpp"
#include "cost/kernel_model.hpp"
#include "model/architecture.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measured_kernels_test)
namespace {

/// The GPU of a cluster that names the file, whatever its datasheet says.
Gpu measured(const std::string& datasheet) {
  const std::string file = (data_folder() / "tests/data/kernels/one_core.yaml").string();
  const std::string text =
      "{nodes: 1, node: {gpus: 1, gpu: " + datasheet + "}, kernels: " + file + "}";
  return read_cluster(Document::parse(text, "c.yaml")->root()).groups.at(0).node.gpu;
}

const std::string kSmall = "{fp32: 100GFLOPs, memory: 16GiB, memory_bandwidth: 12GBps}";
const std::string kLarge = "{fp32: 9TFLOPs, memory: 16GiB, memory_bandwidth: 900GBps}";

StepCosts costs_of(const std::string& name, std::int64_t batch, const Gpu& gpu) {
  return step_costs(build_architecture(name, {.sequence = 256}), gpu, Precision::fp32, batch,
                    {.kind = OptimizerKind::adamw}, {});
}

double step_of(const StepCosts& costs) {
  Seconds sum = costs.optimizer;
  for (const UnitCost& unit : costs.units) sum += unit.forward + unit.backward;
  return sum.value();
}

// Neither was measured to make the file. The thread computed 2.79 s in a step of GPT-2 and 1.25 s
// in one of small_llama (`rehearse calibrate step --threads 1`, five steps, the same hour).
BOOST_AUTO_TEST_CASE(steps_follow_that_were_not_measured) {
  BOOST_TEST(std::abs(step_of(costs_of("gpt2", 1, measured(kSmall))) / 2.79 - 1) < 0.13);
  BOOST_TEST(std::abs(step_of(costs_of("small_llama", 2, measured(kSmall))) / 1.25 - 1) < 0.13);
}

BOOST_AUTO_TEST_CASE(rates_are_those_that_were_measured) {
  const StepCosts small = costs_of("gpt2", 1, measured(kSmall));
  const StepCosts large = costs_of("gpt2", 1, measured(kLarge));
  BOOST_TEST(std::abs(step_of(small) / step_of(large) - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(the_thread_that_computes_launches_nothing) {
  const StepCosts costs = costs_of("gpt2", 1, measured(kSmall));
  BOOST_TEST(costs.host_computes);
  for (const UnitCost& unit : costs.units) BOOST_TEST(unit.forward_launch.value() == 0);
}

BOOST_AUTO_TEST_CASE(grounds_name_the_file_s_device) {
  const StepCosts costs = costs_of("gpt2", 1, measured(kSmall));
  int fitted = 0;
  for (const FamilyGround& one : costs.grounds) {
    if (one.ground != CostGround::fitted) continue;
    BOOST_TEST(one.from.ends_with("of one core of an AMD EPYC"), one.from);
    ++fitted;
  }
  BOOST_TEST(fitted == 5);
}

}  // namespace
// Geometric means of data/attention_fp8.csv: Blackwell's twelve points, the H200's three. Where
// nobody measured any it takes 16 bits' time.
BOOST_AUTO_TEST_CASE(attention_in_fp8_takes_its_share_of_16_bits) {
  struct Share {
    const char* gpu;
    double forward, backward;
  };
  const AttentionSize size{.batch = 1, .tokens = 8192, .heads = 64, .kv_heads = 8, .width = 128};
  for (const Share& one : {Share{"B200", 0.8453, 0.8293}, Share{"GB300", 0.8453, 0.8293},
                           Share{"H200-SXM", 0.6835, 1.0602}, Share{"A100-SXM-80", 1, 1}}) {
    const KernelModel kernels(known_gpu(one.gpu), Precision::bf16);
    for (const bool backward : {false, true}) {
      const double share = kernels.attention(size, backward, AttentionKernel::cudnn_fp8) /
                           kernels.attention(size, backward, AttentionKernel::cudnn);
      BOOST_TEST(std::abs(share / (backward ? one.backward : one.forward) - 1) < 1e-3);
    }
  }
}

// Heads of 108 on an A100: batched products begin at every 8 bytes, and others are as before.
BOOST_AUTO_TEST_CASE(batched_products_off_16_bytes_are_slow_on_an_a100_alone) {
  using enum KernelModel::Role;
  const auto time = [](const char* name, double batch, double width) {
    const Gpu gpu = known_gpu(name);
    return KernelModel(gpu, Precision::bf16).product({2048, 2048, width, batch}, forward);
  };
  const Gpu gpu = known_gpu("A100-SXM-80");
  const double rate = gpu.multiprocessors() * gpu.curves->batched_by_four.value();
  const double work = 2 * 64.0 * 2048 * 2048 * 108;
  BOOST_TEST(std::abs(time("A100-SXM-80", 64, 108).value() * rate / work - 1) < 1e-9);
  BOOST_TEST((time("A100-SXM-80", 64, 108) > 4.0 * time("A100-SXM-80", 64, 112)));
  BOOST_TEST((time("A100-SXM-80", 1, 108) < 1.5 * time("A100-SXM-80", 1, 112)));
  BOOST_TEST((time("H100-SXM", 64, 108) < 1.5 * time("H100-SXM", 64, 112)));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
