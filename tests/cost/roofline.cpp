// The roofline of single operators, worked out by hand on a GPU of round numbers.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "cost/cost.hpp"
#include "cost/peak.hpp"
#include "cost/roofline.hpp"
#include "model/adaptation.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(roofline_test)
namespace {

/// fp32 10, tf32 20, fp16 40, bf16 50 TFLOP/s; 1 TB/s.
Gpu round_gpu() {
  Gpu gpu;
  gpu.name = "round";
  gpu.fp32 = FlopsPerSecond(10e12);
  gpu.tf32 = FlopsPerSecond(20e12);
  gpu.fp16 = FlopsPerSecond(40e12);
  gpu.bf16 = FlopsPerSecond(50e12);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  return gpu;
}

constexpr AnalyticEfficiency kEfficiency = {
    .matrix = 0.5, .depthwise = 0.1, .attention = 0.25, .memory = 0.8, .kernel_launch = Seconds(0)};

Model model_of(const Operator& op) {
  Model model;
  model.units.emplace_back();
  model.units[0].operators = {op};
  return model;
}

UnitCost cost_of(const Model& model, Precision precision, std::int64_t batch) {
  return step_costs(model, round_gpu(), precision, batch, Optimizer{}, kEfficiency).units.at(0);
}

UnitCost cost_of(const Operator& op, Precision precision, std::int64_t batch) {
  return cost_of(model_of(op), precision, batch);
}

void check_close(Seconds time, double expected) {
  BOOST_TEST(std::abs(time.value() - expected) <= 1e-9 * expected,
             time.value() << " s is not " << expected << " s");
}

BOOST_AUTO_TEST_CASE(matrix_products_are_bound_by_the_peak_of_their_precision) {
  const Operator op{.kind = OperatorKind::matmul, .forward_flops = 1e9, .backward_flops = 2e9};
  check_close(cost_of(op, Precision::fp32, 8).forward, 8e9 / (0.5 * 10e12));
  check_close(cost_of(op, Precision::fp32, 8).backward, 16e9 / (0.5 * 10e12));
  check_close(cost_of(op, Precision::tf32, 8).forward, 8e9 / (0.5 * 20e12));
  check_close(cost_of(op, Precision::fp16, 8).forward, 8e9 / (0.5 * 40e12));
  check_close(cost_of(op, Precision::bf16_pure, 8).forward, 8e9 / (0.5 * 50e12));
}

BOOST_AUTO_TEST_CASE(convolutions_run_in_tf32_under_fp32_and_matrix_products_do_not) {
  const Operator convolution{.kind = OperatorKind::convolution, .forward_flops = 1e9};
  check_close(cost_of(convolution, Precision::fp32, 8).forward, 8e9 / (0.5 * 20e12));
  check_close(cost_of(convolution, Precision::tf32, 8).forward, 8e9 / (0.5 * 20e12));
  check_close(cost_of(convolution, Precision::bf16, 8).forward, 8e9 / (0.5 * 50e12));
  const Operator attention{.kind = OperatorKind::attention, .forward_flops = 1e9};
  check_close(cost_of(attention, Precision::fp32, 8).forward, 8e9 / (0.25 * 10e12));
}

BOOST_AUTO_TEST_CASE(convolutions_run_in_fp32_on_gpus_without_tf32) {
  Gpu gpu = round_gpu();
  gpu.tf32 = FlopsPerSecond(0);
  const Operator op{.kind = OperatorKind::convolution, .forward_flops = 1e9};
  const StepCosts costs = step_costs(model_of(op), gpu, Precision::fp32, 8, {}, kEfficiency);
  check_close(costs.units.at(0).forward, 8e9 / (0.5 * 10e12));
}

BOOST_AUTO_TEST_CASE(attention_and_depthwise_convolution_have_their_own_shares) {
  const Operator attention{.kind = OperatorKind::attention, .forward_flops = 1e9};
  check_close(cost_of(attention, Precision::bf16, 4).forward, 4e9 / (0.25 * 50e12));
  const Operator depthwise{.kind = OperatorKind::depthwise_convolution, .forward_flops = 1e9};
  check_close(cost_of(depthwise, Precision::bf16, 4).forward, 4e9 / (0.1 * 10e12));
  const Operator elementwise{.forward_flops = 1e9};
  check_close(cost_of(elementwise, Precision::bf16, 4).forward, 4e9 / 10e12);
}

BOOST_AUTO_TEST_CASE(the_larger_of_arithmetic_and_traffic_counts_and_not_their_sum) {
  const Operator op{.kind = OperatorKind::convolution,
                    .forward_flops = 2e9,  // 200 us at 10 TFLOP/s
                    .backward_flops = 2e9,
                    .forward_elements = 30e6,  // 150 us at 0.8 TB/s
                    .backward_elements = 60e6};
  check_close(cost_of(op, Precision::fp32, 1).forward, 200e-6);
  check_close(cost_of(op, Precision::fp32, 1).backward, 300e-6);
}

BOOST_AUTO_TEST_CASE(weights_are_read_forward_and_read_and_written_backward) {
  const Operator op{.kind = OperatorKind::matmul,
                    .forward_elements = 1e6,
                    .backward_elements = 2e6,
                    .parameter_elements = 50e6};
  check_close(cost_of(op, Precision::fp32, 3).forward, 4 * (3e6 + 50e6) / 0.8e12);
  check_close(cost_of(op, Precision::fp32, 3).backward, 4 * (6e6 + 100e6) / 0.8e12);
  check_close(cost_of(op, Precision::bf16_pure, 3).forward, 2 * (3e6 + 50e6) / 0.8e12);
}

BOOST_AUTO_TEST_CASE(autocast_casts_weights_forward_and_their_gradients_backward) {
  const Operator op{.kind = OperatorKind::matmul,
                    .forward_elements = 1e6,
                    .backward_elements = 2e6,
                    .parameter_elements = 50e6};
  const double cast = 6 * 50e6 / 0.8e12;
  check_close(cost_of(op, Precision::bf16, 3).forward, 2 * (3e6 + 50e6) / 0.8e12 + cast);
  check_close(cost_of(op, Precision::bf16, 3).backward, 2 * (6e6 + 100e6) / 0.8e12 + cast);
}

// 6 bytes an element at 0.8 TB/s, each way; backward sums the gradient first, as before.
BOOST_AUTO_TEST_CASE(autocast_casts_biases_too) {
  const Operator bias{.backward_elements = 4e6, .parameter_elements = 1e6};
  const double cast = 6e6 / 0.8e12, sum = (2 * 4e6 + 2 * 4 * 1e6) / 0.8e12;
  check_close(cost_of(bias, Precision::bf16, 1).forward, cast);
  check_close(cost_of(bias, Precision::bf16, 1).backward, sum + cast);
  BOOST_TEST(cost_of(bias, Precision::bf16_pure, 1).forward.value() == 0);
  BOOST_TEST(cost_of(bias, Precision::fp32, 1).forward.value() == 0);
}

BOOST_AUTO_TEST_CASE(casts_exist_under_autocast_alone) {
  const Operator op{.kind = OperatorKind::cast, .forward_elements = 1e6, .backward_elements = 1e6};
  check_close(cost_of(op, Precision::fp16, 4).forward, 6 * 4e6 / 0.8e12);
  BOOST_TEST(cost_of(op, Precision::fp32, 4).forward.value() == 0);
  BOOST_TEST(cost_of(op, Precision::bf16_pure, 4).backward.value() == 0);
}

BOOST_AUTO_TEST_CASE(layout_conversions_exist_on_tensor_cores_alone) {
  const Operator op{
      .kind = OperatorKind::layout, .forward_elements = 1e6, .backward_elements = 2e6};
  check_close(cost_of(op, Precision::fp32, 4).forward, 4 * 4e6 / 0.8e12);
  check_close(cost_of(op, Precision::tf32, 4).forward, 4 * 4e6 / 0.8e12);
  check_close(cost_of(op, Precision::fp16, 4).backward, 2 * 8e6 / 0.8e12);

  Gpu gpu = round_gpu();  // as a V100: fp16 alone
  gpu.tf32 = gpu.bf16 = FlopsPerSecond(0);
  const auto forward = [&](Precision precision) {
    return step_costs(model_of(op), gpu, precision, 4, {}, kEfficiency).units.at(0).forward;
  };
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    BOOST_TEST(forward(precision).value() == 0);
  }
  check_close(forward(Precision::fp16), 2 * 4e6 / 0.8e12);
}

BOOST_AUTO_TEST_CASE(mfu_counts_every_product_against_the_peak_of_its_own_format) {
  const Operator product{.kind = OperatorKind::matmul, .forward_flops = 3e9};
  const Operator convolution{.kind = OperatorKind::convolution, .forward_flops = 1e9};
  const auto peak = [](const Model& model, Precision precision) {
    return peak_for(model, round_gpu(), precision).value();
  };
  BOOST_CHECK_CLOSE(peak(model_of(product), Precision::fp32), 10e12, 1e-7);
  BOOST_CHECK_CLOSE(peak(model_of(convolution), Precision::fp32), 20e12, 1e-7);
  BOOST_CHECK_CLOSE(peak(model_of(convolution), Precision::tf32), 20e12, 1e-7);
  BOOST_CHECK_CLOSE(peak(model_of(convolution), Precision::fp16), 40e12, 1e-7);
  // 3 GFLOP at 10 TFLOP/s and 1 at 20 take 350 us.
  Model both = model_of(product);
  both.units[0].operators.push_back(convolution);
  BOOST_CHECK_CLOSE(peak(both, Precision::fp32), 4e9 / 350e-6, 1e-7);
}

BOOST_AUTO_TEST_CASE(a_tf32_rate_below_fp32_does_not_lower_the_peak_that_mfu_counts_against) {
  Gpu gpu = round_gpu();
  gpu.tf32 = FlopsPerSecond(5e12);
  const Model convolutions = model_of({.kind = OperatorKind::convolution, .forward_flops = 1e9});
  BOOST_CHECK_CLOSE(peak_for(convolutions, gpu, Precision::fp32).value(), 10e12, 1e-7);
}

BOOST_AUTO_TEST_CASE(wide_operators_move_four_bytes_under_autocast) {
  Operator op{.kind = OperatorKind::normalization, .forward_elements = 1e6};
  check_close(cost_of(op, Precision::bf16, 4).forward, 2 * 4e6 / 0.8e12);
  op.wide = true;
  check_close(cost_of(op, Precision::bf16, 4).forward, 4 * 4e6 / 0.8e12);
  check_close(cost_of(op, Precision::bf16_pure, 4).forward, 2 * 4e6 / 0.8e12);
}

BOOST_AUTO_TEST_CASE(embeddings_read_rows_in_use_and_write_a_dense_gradient) {
  const Operator op{.kind = OperatorKind::embedding,
                    .forward_elements = 2e6,
                    .backward_elements = 3e6,
                    .parameter_elements = 40e6};
  check_close(cost_of(op, Precision::fp32, 2).forward, 4 * 4e6 / 0.8e12);
  check_close(cost_of(op, Precision::fp32, 2).backward, 4 * (6e6 + 40e6) / 0.8e12);
}

BOOST_AUTO_TEST_CASE(every_kernel_takes_a_launch_and_no_work_launches_none) {
  AnalyticEfficiency efficiency = kEfficiency;
  efficiency.kernel_launch = Seconds(3e-6);
  const Operator op{.kind = OperatorKind::matmul, .forward_flops = 1e9};
  const StepCosts costs =
      step_costs(model_of(op), round_gpu(), Precision::fp32, 8, Optimizer{}, efficiency);
  check_close(costs.units.at(0).forward, 3e-6 + 8e9 / (0.5 * 10e12));
  BOOST_TEST(costs.units.at(0).backward.value() == 0);
}

BOOST_AUTO_TEST_CASE(operators_of_a_unit_run_one_after_another) {
  Model model = model_of({.kind = OperatorKind::matmul, .forward_flops = 1e9});
  model.units[0].operators.push_back({.forward_elements = 80e6});
  check_close(cost_of(model, Precision::fp32, 1).forward, 200e-6 + 400e-6);
}

BOOST_AUTO_TEST_CASE(a_gpu_without_rates_is_our_own_bug) {
  const Operator op{.kind = OperatorKind::matmul, .forward_flops = 1e9};
  Gpu gpu;
  const auto ask = [&] {
    return step_costs(model_of(op), gpu, Precision::fp32, 1, Optimizer{}, kEfficiency);
  };
  BOOST_CHECK_THROW(ask(), InternalError);
  gpu.fp32 = FlopsPerSecond(1e12);
  BOOST_CHECK_THROW(ask(), InternalError);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  BOOST_CHECK_NO_THROW(ask());
  BOOST_CHECK_THROW(step_costs(model_of(op), gpu, Precision::fp32, 0, Optimizer{}, kEfficiency),
                    InternalError);
}

BOOST_AUTO_TEST_CASE(linear_layers_of_blocks_multiply_in_8_bits) {
  Gpu gpu = round_gpu();
  gpu.fp8 = FlopsPerSecond(100e12);
  gpu.fp4 = FlopsPerSecond(200e12);
  Operator op{.kind = OperatorKind::matmul,
              .forward_flops = 1e9,
              .backward_flops = 2e9,
              .product = {.rows = 1000, .columns = 500, .inner = 1000},
              .narrows = true,
              .quantized_input = 1e6};
  const auto cost = [&](Precision precision) {
    return step_costs(model_of(op), gpu, precision, 8, {}, kEfficiency).units.at(0);
  };
  // 16 bits are read and 8 written twice, of the input and of the output's gradient.
  check_close(cost(Precision::fp8).forward, 8e9 / (0.5 * 100e12) + 8e6 * 4 / 0.8e12);
  check_close(cost(Precision::fp8).backward, 16e9 / (0.5 * 100e12) + 8 * 5e5 * 4 / 0.8e12);
  // With a scale of a byte per 32, and of a byte per 16 elements of 4 bits, made by three kernels.
  check_close(cost(Precision::mxfp8).forward, 8e9 / (0.5 * 100e12) + 8e6 * (4 + 2.0 / 32) / 0.8e12);
  check_close(cost(Precision::nvfp4).forward,
              8e9 / (0.5 * 200e12) + 8e6 * (6 + 2 * (0.5 + 1.0 / 16)) / 0.8e12);
  check_close(cost(Precision::bf16_master).forward, 8e9 / (0.5 * 50e12));
  op.narrows = false;
  check_close(cost(Precision::fp8).forward, 8e9 / (0.5 * 50e12));
  BOOST_TEST(peak_for(model_of(op), gpu, Precision::fp8).value() == 50e12);
  op.narrows = true;
  BOOST_TEST(peak_for(model_of(op), gpu, Precision::fp8).value() == 100e12);
}

// torchao casts both sides forward, each after a look for its largest element, and backward the
// weight and the input once more, turned, and the gradient as rows and as columns. A turned byte
// takes 2.2 / 1.4 as long, one with a scale of its column 2.1 / 0.65.
BOOST_AUTO_TEST_CASE(float8_casts_for_each_product) {
  Gpu gpu = round_gpu();
  gpu.fp8 = FlopsPerSecond(100e12);
  Operator op{.kind = OperatorKind::matmul,
              .forward_flops = 1e9,
              .backward_flops = 2e9,
              .parameter_elements = 5e5,
              .product = {.rows = 1000, .columns = 500, .inner = 1000},
              .narrows = true,
              .quantized_input = 1e6,
              .float8 = Float8::tensorwise};
  const auto cost = [&] {
    return step_costs(model_of(op), gpu, Precision::bf16_pure, 8, {}, kEfficiency).units.at(0);
  };
  const double forward = 8e9 / (0.5 * 100e12), backward = 2 * forward, memory = 0.8e12;
  check_close(cost().forward, forward + (8e6 + 5e5) * 5 / memory);
  const double turned = 2.2 / 1.4, columns = 2.1 / 0.65;
  const double dy = 8 * 5e5, w = 5e5, x = 8e6;
  check_close(cost().backward, backward + (dy * (2 + 4 * turned) + (w + x) * 3 * turned) / memory);
  op.input_ranks = 4;
  check_close(cost().forward, forward + (x / 4 + w) * 5 / memory);
  check_close(cost().backward,
              backward + (dy * (2 + 4 * turned) + w * 3 * turned + x * 2 * turned) / memory);
  op.input_ranks = 1;
  op.gradient_ranks = 4;
  check_close(cost().backward,
              backward + (dy * (5.0 / 4 + 2 * turned) + (w + x) * 3 * turned) / memory);
  op.float8 = Float8::rowwise;
  check_close(cost().forward, forward + (x + w) * 5 / memory);
  check_close(cost().backward,
              backward + (dy * (5 + 3 * columns) + (w + x) * 3 * columns + (x + w) * 4) / memory);
  op.gradient_ranks = 1;
  BOOST_TEST(peak_for(model_of(op), gpu, Precision::bf16_pure).value() == 100e12);
  op.float8 = Float8::none;
  BOOST_TEST(peak_for(model_of(op), gpu, Precision::bf16_pure).value() == 50e12);
}

BOOST_AUTO_TEST_CASE(fused_attention_computes_what_its_mask_leaves) {
  Operator op{.kind = OperatorKind::attention, .forward_flops = 1e9, .backward_flops = 2e9};
  op.heads = {.heads = 8, .kv_heads = 8, .head_width = 64};
  op.tokens = 1024;
  const auto check_left = [&](double left) {
    check_close(cost_of(op, Precision::bf16_pure, 4).forward, 4e9 * left / (0.25 * 50e12));
    check_close(cost_of(op, Precision::bf16_pure, 4).backward, 10e9 * left / (0.25 * 50e12));
  };
  check_left(1025.0 / 2048);
  op.heads.window = 256;  // pairs of a query and a key are counted within the window
  check_left(1 - 255.0 / 2048);
  op.heads.causal = false;
  check_left(1);
  op.heads.kernel = AttentionKernel::triton;  // whose share is the stated one
  check_left(1);
  AnalyticEfficiency asked = kEfficiency;
  asked.attention = std::nullopt;
  const auto forward = [&](AttentionKernel kernel) {
    op.heads.kernel = kernel;
    return step_costs(model_of(op), round_gpu(), Precision::bf16_pure, 4, {}, asked)
        .units.at(0)
        .forward.value();
  };
  check_close(Seconds(forward(AttentionKernel::triton)), 1.8 * forward(AttentionKernel::flash2));
}

// Without a measured rate an unvectorized kernel reads and writes as a conversion does: 6 bytes.
BOOST_AUTO_TEST_CASE(what_eager_modules_compose_takes_its_kernels) {
  Operator op{
      .kind = OperatorKind::normalization, .forward_elements = 2e6, .backward_elements = 5e6};
  op.eager_forward = {.kernels = 3, .moved = 3e6, .written = 2e6, .converted = 1e6, .plain = 4e6};
  check_close(cost_of(op, Precision::fp32, 2).forward,
              2 * (3e6 * 4 + 2e6 * 6 + 4e6 * 4) / (0.8 * 1e12));
  check_close(cost_of(op, Precision::bf16_pure, 2).forward,
              2 * (3e6 * 4 + 2e6 * 6 + 1e6 * (6 + 6) + 4e6 * 2) / (0.8 * 1e12));
  check_close(cost_of(op, Precision::fp32, 2).backward, 2 * 5e6 * 4 / (0.8 * 1e12));
}

// A conversion that is part of a kernel does not make it free where nothing is converted.
BOOST_AUTO_TEST_CASE(a_compiled_conversion_is_part_of_the_kernel_before_it) {
  const Operator sum{.forward_elements = 3e6, .backward_elements = 3e6};
  Model model = model_of(sum);
  model.units[0].operators.push_back({.kind = OperatorKind::cast, .backward_elements = 1e6});
  for (const Precision precision : {Precision::bf16_pure, Precision::bf16}) {
    const UnitCost alone = cost_of(compiled(model_of(sum)), precision, 1);
    const UnitCost both = cost_of(compiled(model), precision, 1);
    BOOST_TEST(both.forward.value() == alone.forward.value());
    BOOST_TEST(both.backward.value() == alone.backward.value());
  }
}

BOOST_AUTO_TEST_CASE(a_compiled_norm_is_one_kernel) {
  Operator op{.kind = OperatorKind::normalization, .forward_elements = 2e6};
  op.eager_forward = {.kernels = 3, .moved = 3e6};
  const Model model = compiled(model_of(op));
  check_close(cost_of(model, Precision::fp32, 2).forward, 2 * 2e6 * 4 / (0.8 * 1e12));
}

BOOST_AUTO_TEST_CASE(depthwise_gradients_in_fp32_and_channels_last_are_slowest) {
  Operator op{.kind = OperatorKind::depthwise_convolution, .backward_flops = 1e9};
  const auto backward = [&](Precision precision, bool channels_last) {
    op.channels_last = channels_last;
    return step_costs(model_of(op), round_gpu(), precision, 1, {}, {}).units.at(0).backward;
  };
  const double bf16 = backward(Precision::bf16_pure, true) / backward(Precision::fp32, true);
  BOOST_TEST(bf16 < 0.1);
  BOOST_TEST((backward(Precision::tf32, true) > 2 * backward(Precision::tf32, false)));
}

BOOST_AUTO_TEST_CASE(products_of_fp32_adapters_run_in_fp32) {
  Operator op{.kind = OperatorKind::matmul, .forward_flops = 1e9, .backward_flops = 2e9};
  op.always_fp32 = true;
  check_close(cost_of(op, Precision::bf16_pure, 8).forward, 8e9 / (0.5 * 10e12));
  check_close(cost_of(op, Precision::tf32, 8).forward, 8e9 / (0.5 * 20e12));
  op.storage = StoredAs::fp32;
  Model model = model_of(op);
  compute_adapters_in_16_bits(model);  // what FSDP's param_dtype makes of them
  check_close(cost_of(model, Precision::bf16_pure, 8).forward, 8e9 / (0.5 * 50e12));
}

BOOST_AUTO_TEST_CASE(recomputed_attention_runs_once_more_before_its_backward) {
  Operator op{.kind = OperatorKind::attention, .forward_flops = 1e9, .backward_flops = 2e9};
  op.recomputed = true;
  check_close(cost_of(op, Precision::bf16_pure, 4).forward, 4e9 / (0.25 * 50e12));
  check_close(cost_of(op, Precision::bf16_pure, 4).backward, 12e9 / (0.25 * 50e12));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
