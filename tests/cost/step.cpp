// Costs of whole steps: given times, the optimizer, what is stated, and properties of every
// built-in network.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <stdexcept>

#include "cost/cost.hpp"
#include "cost/peak.hpp"
#include "model/adaptation.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(step_test)
namespace {

namespace data = boost::unit_test::data;

/// An A100 SXM, 80 GB.
Gpu a100() {
  Gpu gpu;
  gpu.name = "A100-SXM-80";
  gpu.fp32 = FlopsPerSecond(19.5e12);
  gpu.tf32 = FlopsPerSecond(156e12);
  gpu.fp16 = FlopsPerSecond(312e12);
  gpu.bf16 = FlopsPerSecond(312e12);
  gpu.memory_bandwidth = BytesPerSecond(2039e9);
  return gpu;
}

StepCosts costs_of(const Model& model, Precision precision, std::int64_t batch,
                   const Optimizer& optimizer = {}) {
  return step_costs(model, a100(), precision, batch, optimizer, {});
}

void check_close(double value, double expected) {
  BOOST_TEST(std::abs(value - expected) <= 1e-9 * expected, value << " is not " << expected);
}

/// Two units whose times are given.
Model given_model() {
  Model model;
  model.units.resize(2);
  for (Unit& unit : model.units) {
    unit.tensors = {250000};
    unit.forward = Seconds(1e-3);
    unit.backward = Seconds(2e-3);
    unit.activation = Bytes(4096);
    unit.host_launch = Seconds(5e-6);
  }
  return model;
}

BOOST_AUTO_TEST_CASE(given_times_replace_the_roofline) {
  Model model = given_model();
  model.optimizer_time = Seconds(3e-3);
  const StepCosts costs = step_costs(model, Gpu{}, Precision::fp32, 8, {OptimizerKind::adam}, {});
  BOOST_TEST(costs.units[0].forward.value() == 1e-3);
  BOOST_TEST(costs.units[1].backward.value() == 2e-3);
  BOOST_TEST(costs.units[0].forward_launch.value() == 5e-6);
  BOOST_TEST(costs.units[0].backward_launch.value() == 5e-6);
  BOOST_TEST(costs.optimizer.value() == 3e-3);
  BOOST_TEST(costs.copy_time(Bytes(1e9)).value() == 0);
  BOOST_TEST(to_string(costs.provenance) == "given");
  BOOST_TEST(costs.assumptions.empty());
}

BOOST_AUTO_TEST_CASE(one_unit_without_times_makes_the_step_analytic) {
  Model model = given_model();
  model.units[1].backward.reset();
  const StepCosts costs = costs_of(model, Precision::fp32, 8);
  BOOST_TEST(to_string(costs.provenance) == "analytic");
  BOOST_TEST(costs.units[1].forward.value() == 1e-3);
}

// A step so small that its launches bind: a product, an eager composite of three kernels forward
// and five backward, an elementwise kernel, and one that forward does without.
BOOST_AUTO_TEST_CASE(eager_operators_take_the_host_longer_than_compiled_ones) {
  Model model;
  model.units.resize(1);
  Unit& unit = model.units[0];
  unit.tensors = {10};
  Operator product{.kind = OperatorKind::matmul, .forward_flops = 1, .backward_flops = 2};
  product.parameter_elements = 10;
  Operator norm{.kind = OperatorKind::normalization, .forward_elements = 1, .backward_elements = 1};
  norm.eager_forward = {.kernels = 3, .moved = 1};
  norm.eager_backward = {.kernels = 5, .moved = 1};
  const Operator both{.forward_elements = 1, .backward_elements = 1};
  const Operator sum{.backward_elements = 1};
  unit.operators = {product, norm, both, product, sum};
  const auto check_launches = [](const StepCosts& costs, double forward, double backward) {
    BOOST_CHECK_CLOSE(costs.units[0].forward_launch.value(), forward, 1e-7);
    BOOST_CHECK_CLOSE(costs.units[0].backward_launch.value(), backward, 1e-7);
  };
  const double eager = kHostOperator.value(), kernel = kHostLaunch.value();
  check_launches(costs_of(model, Precision::fp32, 1), 6 * eager, 11 * eager);
  // Autocast converts the weights, and their gradients back.
  check_launches(costs_of(model, Precision::bf16, 1), 8 * eager, 13 * eager);
  check_launches(costs_of(compiled(model), Precision::fp32, 1), 3 * kernel, 6 * kernel);
  unit.operators[0].frozen = true;
  check_launches(costs_of(model, Precision::fp32, 1), 6 * eager, 10 * eager);
  check_launches(costs_of(model, Precision::bf16, 1), 8 * eager, 11 * eager);
}

// A counter, a number that is drawn, a sum of gradients; and cuDNN's conversions, which are part of
// a convolution.
BOOST_AUTO_TEST_CASE(what_no_operator_stands_for_takes_the_host_a_kernel) {
  Model model;
  model.units.resize(1);
  Operator norm{.kind = OperatorKind::normalization, .forward_elements = 1, .backward_elements = 1};
  norm.bare_forward = 3;
  norm.bare_backward = 5;
  model.units[0].operators = {norm};
  const double eager = kHostOperator.value(), kernel = kHostLaunch.value();
  const UnitCost plain = costs_of(model, Precision::fp32, 1).units[0];
  BOOST_CHECK_CLOSE(plain.forward_launch.value(), eager + 3 * kernel, 1e-7);
  BOOST_CHECK_CLOSE(plain.backward_launch.value(), eager + 5 * kernel, 1e-7);
  Operator conversion{.kind = OperatorKind::layout, .forward_elements = 1, .backward_elements = 1};
  conversion.bare_forward = 2;
  model.units[0].operators = {norm, conversion};
  BOOST_CHECK_CLOSE(costs_of(model, Precision::tf32, 1).units[0].forward_launch.value(),
                    eager + 5 * kernel, 1e-7);
}

// However long its kernels take the GPU.
BOOST_AUTO_TEST_CASE(the_hosts_work_does_not_depend_on_the_batch) {
  Model model;
  model.units.resize(2);
  model.units[0].operators = {
      {.kind = OperatorKind::matmul, .forward_flops = 1e9, .backward_flops = 2e9}};
  model.units[1].operators = {{.forward_elements = 1, .backward_elements = 1}};
  for (const std::int64_t batch : {1, 1000}) {
    const StepCosts costs = costs_of(model, Precision::fp32, batch);
    BOOST_TEST(costs.host_operator.value() == kHostOperator.value());
    for (const UnitCost& unit : costs.units) {
      BOOST_TEST(unit.forward_launch.value() == kHostOperator.value());
      BOOST_TEST(unit.backward_launch.value() == kHostOperator.value());
    }
  }
}

// On a host that is twice as slow with one, it is with the other.
BOOST_AUTO_TEST_CASE(what_a_host_takes_for_an_operator_says_what_a_compiled_kernel_takes) {
  const AnalyticEfficiency slow{.host_launch = 2 * kHostOperator};
  BOOST_CHECK_CLOSE(slow.host_kernel().value(), 2 * kHostLaunch.value(), 1e-9);
  BOOST_TEST(AnalyticEfficiency{.host_launch = Seconds(0)}.host_kernel().value() == 0);
}

BOOST_AUTO_TEST_CASE(an_optimizer_takes_the_host_a_part_of_an_operator_for_each_tensor) {
  Model model;
  model.units.resize(1);
  model.units[0].tensors = {10, 20, 30};
  model.units[0].operators = {{.forward_elements = 1, .backward_elements = 1}};
  BOOST_CHECK_CLOSE(costs_of(model, Precision::fp32, 1).optimizer_launch.value(),
                    3 * kHostTensor * kHostOperator.value(), 1e-9);
}

BOOST_AUTO_TEST_CASE(copies_go_at_what_kernels_reach_of_the_memory_bandwidth) {
  Model model = given_model();
  model.units[1].backward.reset();
  const StepCosts costs = costs_of(model, Precision::fp32, 8);
  BOOST_CHECK_CLOSE(costs.copy_time(Bytes(2039e6)).value(), 1e-3 / 0.85, 1e-7);
}

const std::vector<std::string> kOptimizers = {"sgd", "sgd_momentum", "adam", "adamw", "lamb"};
const std::vector<double> kForeachAccesses = {3, 8, 18, 20, 13};
const std::vector<double> kFusedAccesses = {3, 5, 7, 7, 13};
const std::vector<double> kStates = {0, 1, 2, 2, 2};

BOOST_DATA_TEST_CASE(an_optimizers_states_are_as_wide_as_what_it_updates,
                     data::make(kOptimizers) ^ kStates, name, states) {
  const OptimizerKind kind = parse_optimizer(name);
  BOOST_TEST(to_string(kind) == name);
  BOOST_TEST(to_string(Optimizer{kind}) == name);
  BOOST_TEST(to_string(Optimizer{.kind = kind, .fused = true}) == name + ", fused");
  const auto kept = [&](Precision of) {
    return optimizer_memory({.kind = kind, .of = of}).kept().value();
  };
  BOOST_TEST(kept(Precision::fp32) == 4 * states);
  BOOST_TEST(kept(Precision::bf16) == 4 * states);
  BOOST_TEST(kept(Precision::bf16_pure) == 2 * states);
  BOOST_TEST(kept(Precision::bf16_master) == 4 * states + 4);
  BOOST_TEST(kept(Precision::fp16_master) == 4 * states + 4);
}

BOOST_AUTO_TEST_CASE(states_and_master_weights_can_be_asked_for) {
  const auto kept = [](const Optimizer& optimizer) {
    return optimizer_memory(optimizer).kept().value();
  };
  const Optimizer adamw{.kind = OptimizerKind::adamw, .of = Precision::bf16_pure};
  Optimizer other = adamw;
  other.master_element = Bytes(4);
  BOOST_TEST(kept(other) == 4 + 8);  // the fp32 master weights' states are fp32
  other.state_element = Bytes(2);
  BOOST_TEST(kept(other) == 4 + 4);
  other.master_element = Bytes(0);
  other.of = Precision::bf16_master;
  BOOST_TEST(kept(other) == 4);
  BOOST_TEST(kept({.kind = OptimizerKind::adamw, .state_element = Bytes(2)}) == 4);
  BOOST_TEST(has_plain_formats(adamw));
  BOOST_TEST(!has_plain_formats({.kind = OptimizerKind::adamw, .state_element = Bytes(2)}));
  BOOST_TEST(describe_formats(adamw) ==
             "parameters and gradients of 2 bytes, 2 states of 2, no master weights");
  BOOST_TEST(describe_formats({.kind = OptimizerKind::sgd, .of = Precision::fp16_master}) ==
             "parameters and gradients of 2 bytes, no states, master weights of 4");
}

BOOST_DATA_TEST_CASE(foreach_optimizers_move_the_operands_of_every_operation_and_fused_ones_once,
                     data::make(kOptimizers) ^ kForeachAccesses ^ kFusedAccesses, name, foreach,
                     fused) {
  const OptimizerKind kind = parse_optimizer(name);
  const Model model = build_architecture("vgg16", {});
  const double byte = 138357544 / (0.85 * 2039e9);
  const auto check_moved = [&](Precision of, double element, double conversions) {
    check_close(costs_of(model, of, 1, {.kind = kind, .of = of}).optimizer.value(),
                (element * foreach + conversions) * byte);
    check_close(costs_of(model, of, 1, {.kind = kind, .fused = true, .of = of}).optimizer.value(),
                (element * fused + conversions) * byte);
  };
  check_moved(Precision::fp32, 4, 0);
  check_moved(Precision::fp16, 4, 0);
  check_moved(Precision::bf16_pure, 2, 0);
  // The gradient becomes fp32 (2 + 4) and the parameter 16-bit again (4 + 2).
  check_moved(Precision::bf16_master, 4, 12);
}

BOOST_AUTO_TEST_CASE(states_of_another_type_move_their_own_bytes) {
  // Fused: p twice and g once in fp32, m and v twice each in bf16.
  BOOST_TEST(optimizer_bytes_per_parameter(
                 {.kind = OptimizerKind::adamw, .fused = true, .state_element = Bytes(2)})
                 .value() == 3 * 4 + 4 * 2);
}

BOOST_AUTO_TEST_CASE(optimizers_of_few_bytes_keep_a_byte_and_its_scale_or_a_row_and_a_column) {
  const auto memory = [](OptimizerKind kind, Precision of) {
    return optimizer_memory({.kind = kind, .of = of});
  };
  const OptimizerMemory bytes = memory(OptimizerKind::adamw_8bit, Precision::bf16_pure);
  BOOST_TEST(bytes.kept().value() == 2 * (1 + 4.0 / 256));
  BOOST_TEST(bytes.foreach_temporaries == 0);
  const OptimizerMemory factored = memory(OptimizerKind::adafactor, Precision::bf16_pure);
  BOOST_TEST(factored.kept().value() == 0);
  BOOST_TEST(factored.factored);
  BOOST_TEST(factored.foreach_temporaries == 4);
  BOOST_TEST(memory(OptimizerKind::adafactor, Precision::fp32).foreach_temporaries == 2);
}

BOOST_AUTO_TEST_CASE(torchs_own_optimizers_have_a_fused_option) {
  const std::set<std::string> others = {"lamb", "adamw_8bit", "adafactor", "muon"};
  for (const std::string& name : optimizer_names()) {
    BOOST_TEST(has_fused_option(parse_optimizer(name)) == !others.contains(name), name);
  }
}

BOOST_AUTO_TEST_CASE(foreach_optimizers_launch_a_kernel_per_operation_and_group_of_tensors) {
  BOOST_TEST(optimizer_kernels({OptimizerKind::sgd}, 64) == 1);
  BOOST_TEST(optimizer_kernels({OptimizerKind::sgd}, 65) == 2);
  BOOST_TEST(optimizer_kernels({OptimizerKind::sgd_momentum}, 110) == 1 + 2 + 2);
  BOOST_TEST(optimizer_kernels({OptimizerKind::adam}, 36) == 7);
  BOOST_TEST(optimizer_kernels({OptimizerKind::adam}, 100) == 2 + 1 + 3 + 2 + 2 + 1 + 3);
  BOOST_TEST(optimizer_kernels({OptimizerKind::adamw}, 100) == 14 + 1);
  BOOST_TEST(optimizer_kernels({OptimizerKind::adafactor}, 100) == 20 * 100);
  BOOST_TEST(optimizer_kernels({.kind = OptimizerKind::adamw, .of = Precision::bf16_master}, 100) ==
             14 + 1 + 2 * 2);  // and two conversions
}

BOOST_AUTO_TEST_CASE(fused_optimizers_launch_a_kernel_per_group_of_tensors) {
  const auto kernels = [](OptimizerKind kind, std::size_t tensors) {
    return optimizer_kernels({.kind = kind, .fused = true}, tensors);
  };
  BOOST_TEST(kernels(OptimizerKind::sgd, 65) == 2);
  BOOST_TEST(kernels(OptimizerKind::sgd_momentum, 49) == 2);
  BOOST_TEST(kernels(OptimizerKind::adamw, 364) == 11);  // 36 at a time
  BOOST_TEST(kernels(OptimizerKind::lamb, 36) == 5);
  BOOST_TEST(optimizer_kernels({OptimizerKind::lamb}, 37) == 6);
}

BOOST_AUTO_TEST_CASE(optimizer_of_many_small_tensors_is_bound_by_its_launches) {
  Model model = given_model();
  model.units[0].tensors.assign(641, 1);
  model.units[1].tensors.clear();
  check_close(costs_of(model, Precision::fp32, 1).optimizer.value(), 11 * 4e-6);
}

BOOST_AUTO_TEST_CASE(unknown_optimizers_are_answered_with_the_known_ones) {
  BOOST_CHECK_EXCEPTION(parse_optimizer("adagrad"), std::invalid_argument, [](const auto& error) {
    return std::string(error.what()) ==
           "expected an optimizer, one of sgd, sgd_momentum, adam, adamw, lamb, adamw_8bit, "
           "adafactor, muon; got \"adagrad\"";
  });
  std::vector<std::string> names = kOptimizers;
  names.insert(names.end(), {"adamw_8bit", "adafactor", "muon"});
  BOOST_TEST(optimizer_names() == names, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(assumptions_name_every_share_and_rate) {
  const StepCosts costs = costs_of(build_architecture("resnet50", {}), Precision::tf32, 1,
                                   {OptimizerKind::sgd_momentum});
  const std::vector<std::string> expected = {
      "compute: each operator takes 4.00 us and the larger of its FLOPs over the tf32 rate (156 "
      "TFLOP/s; matrix products reach 80 %, attention 60 %) and its bytes over the memory "
      "bandwidth (2.04 TB/s; reached: 85 %, by operands of matrix products 85 %); depthwise "
      "convolutions reach 4.2 % of the fp32 rate (19.5 TFLOP/s); shares of no GPU in particular, "
      "A100-SXM-80 has none of its own",
      "workspace: no kernel needs memory beyond its activations",
      "layout: contiguous (NCHW, PyTorch's default), which cuDNN converts around each convolution "
      "on "
      "tensor cores; channels_last avoids it",
      "optimizer: sgd_momentum in foreach kernels (PyTorch's default) moves 32 bytes per parameter "
      "at 85 % of the memory bandwidth"};
  // The first says what was not measured.
  const std::vector<std::string> rates(costs.assumptions.begin() + 1, costs.assumptions.end());
  BOOST_TEST(rates == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(assumptions_name_both_rates_where_fp32_convolves_in_tf32) {
  const auto rates = [](const std::string& network, const Gpu& gpu) {
    const std::string line =
        step_costs(build_architecture(network, {}), gpu, Precision::fp32, 1, {}, {})
            .assumptions.at(1);
    const std::string begin =
        "compute: each operator takes 4.00 us and the larger of its FLOPs over ";
    BOOST_REQUIRE(line.starts_with(begin));
    return line.substr(begin.size(), line.find(" and its bytes") - begin.size());
  };
  BOOST_TEST(rates("resnet50", a100()) ==
             "the tf32 rate for convolutions (156 TFLOP/s; reached: 80 %) and the fp32 rate for "
             "matrix products (19.5 TFLOP/s), PyTorch's defaults (reached: 80 %, attention 60 %)");
  BOOST_TEST(rates("gpt2", a100()) ==
             "the fp32 rate (19.5 TFLOP/s; matrix products reach 80 %, attention 60 %)");
  Gpu without_tf32 = a100();
  without_tf32.tf32 = FlopsPerSecond(0);
  BOOST_TEST(rates("resnet50", without_tf32) ==
             "the fp32 rate (19.5 TFLOP/s; convolutions, too, as this GPU has no tf32; matrix "
             "products reach 80 %, attention 60 %)");
}

BOOST_AUTO_TEST_CASE(assumptions_name_the_optimizers_kernels) {
  const auto stated = [](const Optimizer& optimizer) {
    return costs_of(build_architecture("gpt2", {}), Precision::bf16, 1, optimizer)
        .assumptions.back();
  };
  BOOST_TEST(stated({.kind = OptimizerKind::adamw, .fused = true}) ==
             "optimizer: adamw in fused kernels moves 28 bytes per parameter at 85 % of the memory "
             "bandwidth");
  BOOST_TEST(stated({OptimizerKind::lamb}) ==
             "optimizer: lamb in NVIDIA apex's fused kernels moves 52 bytes per parameter at 85 % "
             "of the memory bandwidth");
}

BOOST_AUTO_TEST_CASE(assumptions_name_the_memory_format) {
  const auto layout = [](bool channels_last, double tf32) {
    const Model model = build_architecture("vgg16", {.channels_last = channels_last});
    Gpu gpu = a100();
    gpu.tf32 = FlopsPerSecond(tf32);
    return step_costs(model, gpu, Precision::fp32, 1, {}, {}).assumptions.at(3);
  };
  BOOST_TEST(layout(true, 156e12) == "layout: channels_last, no conversions around convolutions");
  BOOST_TEST(layout(false, 156e12) ==
             "layout: contiguous (NCHW, PyTorch's default), which cuDNN converts around each "
             "convolution on tensor cores; channels_last avoids it");
  BOOST_TEST(layout(false, 0) ==
             "layout: contiguous (NCHW), no conversions around convolutions without tensor cores");
}

const auto kNetworks = data::make(architecture_names());

BOOST_DATA_TEST_CASE(a_larger_batch_is_never_faster, kNetworks, name) {
  const Model model = build_architecture(name, {});
  StepCosts smaller = costs_of(model, Precision::bf16, 1);
  for (const std::int64_t batch : {2, 3, 8, 64}) {
    const StepCosts larger = costs_of(model, Precision::bf16, batch);
    for (std::size_t i = 0; i < model.units.size(); ++i) {
      BOOST_TEST((larger.units[i].forward >= smaller.units[i].forward));
      BOOST_TEST((larger.units[i].backward >= smaller.units[i].backward));
    }
    smaller = larger;
  }
}

BOOST_DATA_TEST_CASE(no_step_beats_the_peak, kNetworks, name) {
  const Model model = build_architecture(name, {});
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    double seconds = 0;
    for (const UnitCost& unit : costs_of(model, precision, 16).units) {
      seconds += (unit.forward + unit.backward).value();
    }
    const double peak = peak_for(model, a100(), precision).value();
    BOOST_TEST(seconds > 16 * model.flops_per_sample() / peak);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
