#include "cost/roofline.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/peak.hpp"

namespace rehearse::inline cost {
namespace {

constexpr double kAligned = 16;  ///< bytes that fast kernels load at once

CostFamily family_of(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::matmul:
      return CostFamily::products;
    case OperatorKind::convolution:
      return CostFamily::convolutions;
    case OperatorKind::depthwise_convolution:
      return CostFamily::depthwise;
    case OperatorKind::attention:
    case OperatorKind::scan:
      return CostFamily::attention;
    case OperatorKind::pooling:
      return CostFamily::pooling;
    case OperatorKind::embedding:
      return CostFamily::embeddings;
    case OperatorKind::cast:
    case OperatorKind::layout:
      return CostFamily::copies;
    default:
      return op.by_row ? CostFamily::rows : CostFamily::pointwise;
  }
}

/// Documents of a packed sample are as many sequences.
AttentionSize attention_size(const Operator& op, double batch) {
  return {batch * std::max(1.0, op.product.products),
          op.tokens,
          static_cast<double>(op.heads.heads),
          static_cast<double>(op.heads.kv_heads),
          static_cast<double>(op.heads.head_width + op.heads.values()) / 2,
          op.heads.causal,
          static_cast<double>(op.heads.keys),
          static_cast<double>(op.heads.window),
          op.heads.values() != op.heads.head_width,
          op.heads.dropout};
}

/// What a fused kernel computes of the FLOPs that the model counts: the pairs that a causal mask
/// leaves, and in backward five products for forward's two (FlashAttention-2, arXiv:2307.08691).
double computed_share(const Operator& op, Direction direction) {
  const double again = direction == Direction::backward ? 5.0 / 4 : 1;
  return op.tokens == 0 ? again : again * seen_share(op);
}

}  // namespace

Roofline::Roofline(const Gpu& gpu, Precision precision, const AnalyticEfficiency& efficiency,
                   bool adds_gradients)
    : precision_(precision),
      adds_gradients_(adds_gradients),
      adamw_per_parameter_(gpu.curves && gpu.curves->device
                               ? std::optional(gpu.curves->device->optimizer_per_parameter)
                               : std::nullopt),
      kernels_(gpu, precision),
      wide_kernels_(gpu, Precision::fp32),
      sdpa_(attention_library(AttentionKernel::sdpa, gpu)),
      products_stated_(efficiency.matrix.has_value()),
      attention_stated_(efficiency.attention.has_value()),
      memory_stated_(efficiency.memory.has_value()),
      bandwidth_(gpu.memory_bandwidth),
      shares_(reached_shares(gpu, efficiency)),
      converts_layout_(convolves_on_tensor_cores(gpu, precision)),
      multiprocessors_(gpu.multiprocessors()),
      matrix_(gpu.matrix_peak(precision) *
              (multiplies_on_tensor_cores(gpu, precision) ? shares_.matrix : shares_.matrix_fp32)),
      narrow_(narrow_peak(gpu, precision) * shares_.matrix),
      convolution_(convolution_peak(gpu, precision) *
                   (converts_layout_ ? shares_.matrix : shares_.matrix_fp32)),
      attention_(gpu.matrix_peak(precision) * shares_.attention),
      vector_(gpu.fp32),
      memory_(gpu.memory_bandwidth * shares_.memory),
      operands_(gpu.memory_bandwidth * shares_.matrix_memory) {}

Seconds Roofline::time(const Operator& op, double batch, Direction direction) const {
  if (op.kernel) return captured_time(*op.kernel, batch, direction);
  const Seconds once = single_time(op, batch, direction);
  const bool again = op.recomputed && direction == Direction::backward;
  return again ? once + single_time(op, batch, Direction::forward) : once;
}

Seconds Roofline::single_time(const Operator& op, double batch, Direction direction) const {
  const bool forward = direction == Direction::forward;
  const double flops = forward ? op.forward_flops : op.backward_flops;
  const double elements = forward ? op.forward_elements : op.backward_elements;
  const EagerKernels& eager = forward ? op.eager_forward : op.eager_backward;
  if (eager.kernels > 0) return eager_time(eager, batch, element(op));
  if (flops == 0 && elements == 0)
    return is_bias(op) && forward ? weight_cast_time(op, direction) : Seconds(0);
  if (op.kind == OperatorKind::cast) return cast_time(op, batch * elements, direction);
  if (op.kind == OperatorKind::layout && !is_converted(op)) return Seconds(0);
  const Seconds weights =
      weight_cast_time(op, direction) + dequantize_time(op) + quantize_time(op, batch, direction);
  if (const auto known = kernel_time(op, batch, direction)) return *known + weights;
  const Bytes bytes = batch * elements * element(op) + parameter_bytes(op, direction);
  const Seconds arithmetic =
      scan_time(op.scan, batch)
          .value_or(Flops(batch * flops) / rate(op, direction) * fused_factor(op, direction));
  const Seconds traffic = op.kind == OperatorKind::matmul
                              ? bytes / operands_
                              : bytes / reached_memory(op, direction == Direction::backward);
  return shares_.launch +
         std::max({arithmetic, traffic, image_time(op, batch, elements, direction)}) + weights;
}

/// The time is nothing where the scan's kernels are not known, or attention's share is said.
std::optional<Seconds> Roofline::scan_time(const Scan& scan, double batch) const {
  if (scan.occupied == Seconds(0) || multiprocessors_ == 0 || attention_stated_)
    return std::nullopt;
  const double waves = std::max(1.0, batch * scan.blocks / multiprocessors_);
  return batch * scan.occupied / multiprocessors_ + scan.steps * waves * scan.step;
}

/// A conversion reads and writes each of its elements, which are counted twice.
Seconds Roofline::image_time(const Operator& op, double batch, double elements,
                             Direction direction) const {
  if (memory_stated_) return Seconds(0);
  return kernels_.image_kernel(op, batch, batch * elements / 2, precision_,
                               direction == Direction::backward);
}

/// Planes that begin at every 16 bytes are a product's rows as they are.
bool Roofline::is_converted(const Operator& op) const {
  return converts_layout_ &&
         (op.plane == 0 || std::fmod(op.plane * element(op).value(), kAligned) != 0);
}

/// Products of fp32 operands in a model of 16 bits, such as PEFT's adapters, run in fp32 but under
/// autocast.
bool Roofline::runs_wide(const Operator& op) const {
  return op.kind == OperatorKind::matmul && op.always_fp32 && !is_autocast(precision_) &&
         activation_element(precision_) < Bytes(4);
}

const KernelModel& Roofline::kernels_of(const Operator& op) const {
  return runs_wide(op) ? wide_kernels_ : kernels_;
}

/// Of fused attention, by the library that runs it; a stated share is that library's.
double Roofline::fused_factor(const Operator& op, Direction direction) const {
  if (op.heads.heads == 0) return 1;
  const bool backward = direction == Direction::backward;
  const AttentionKernel library = library_of(op);
  const bool as_shared = attention_stated_ || is_cudnn(library);
  return computed_share(op, direction) / (as_shared ? 1 : library_speed(library, backward));
}

AttentionKernel Roofline::library_of(const Operator& op) const {
  return op.heads.kernel == AttentionKernel::sdpa ? sdpa_ : op.heads.kernel;
}

BytesPerSecond Roofline::reached_memory(const Operator& op, bool backward) const {
  check(memory_.value() > 0, "a GPU without a memory bandwidth has no roofline");
  const auto share =
      memory_stated_ ? std::nullopt : kernels_.memory_share(op, element(op), backward);
  return share ? bandwidth_ * *share : memory_;
}

Roofline::Curve Roofline::curve_of(const Operator& op) const {
  const bool has_product = op.product.columns > 0;
  if (op.kind == OperatorKind::attention && !attention_stated_) {
    if (runs_math_attention(op.heads, element(op)) && kernels_.knows_products()) return Curve::math;
    if (op.heads.heads > 0 && kernels_.knows_attention()) return Curve::attention;
    if (has_product && !products_stated_ && kernels_.knows_products()) return Curve::heads;
  }
  if (!has_product || products_stated_) return Curve::none;
  if (op.kind == OperatorKind::matmul && kernels_of(op).knows_products()) return Curve::product;
  const bool convolves = op.kind == OperatorKind::convolution && kernels_.knows_convolutions();
  return convolves ? Curve::convolution : Curve::none;
}

std::optional<Seconds> Roofline::kernel_time(const Operator& op, double batch,
                                             Direction direction) const {
  switch (curve_of(op)) {
    case Curve::none:
      return std::nullopt;
    case Curve::attention:
      return kernels_.attention(attention_size(op, batch), direction == Direction::backward,
                                library_of(op));
    case Curve::product:
      return product_time(op, batch, direction);
    case Curve::math:
      return math_attention(op, batch, direction);
    case Curve::heads:
      return products_of_heads(op.product, batch, direction);
    case Curve::convolution:
      return convolution_time(op, batch, direction);
  }
  return std::nullopt;
}

Nearness Roofline::near_product(const Operator& op, double batch, Direction direction) const {
  const auto& [rows, columns, inner, products, window, stride, weights, together] = op.product;
  const double own =
      op.kind == OperatorKind::attention ? rows : batch * rows / std::max(1.0, weights);
  const auto near = [&](const ProductSize& size) {
    return op.kind == OperatorKind::convolution ? kernels_.near_convolution(size)
                                                : kernels_.near_product(size, runs_narrow(op));
  };
  if (direction == Direction::forward) return near({own, columns, inner});
  const Nearness weight = near({columns, inner, own}), input = near({own, inner, columns});
  return weight.distance > input.distance ? weight : input;
}

OperatorBasis Roofline::basis(const Operator& op, double batch, Direction direction) const {
  if (op.kernel) return captured_basis(op, batch, direction);
  const Curve curve = curve_of(op);
  OperatorBasis basis{.family = runs_narrow(op) ? CostFamily::narrow_products : family_of(op)};
  if (curve == Curve::attention) {
    basis.near = kernels_.near_attention(attention_size(op, batch), library_of(op));
  } else if (curve == Curve::math) {
    basis.near = near_math_attention(op, batch);
  } else if (curve != Curve::none) {
    basis.near = near_product(op, batch, direction);
  } else if (basis.family == CostFamily::rows || basis.family == CostFamily::pointwise) {
    const bool forward = direction == Direction::forward;
    const double elements = forward ? op.forward_elements : op.backward_elements;
    const Bytes moved = batch * elements * element(op) + parameter_bytes(op, direction);
    if (memory_stated_) return basis;
    if (moved > Bytes(0))
      basis.near = kernels_.near_memory(op, element(op), moved);
    else
      basis.near.distance = 1;  // kernels that move nothing lie beyond no size
  }
  return basis;
}

/// Backward makes the weight's gradient, and the input's where something needs it.
/// Of experts each has a product of its own, with waves and a launch of its own, as
/// TransformerEngine's GroupedLinear runs them: 60 measured on a B200 are 11 % off in the mean
/// (MooreThreads/SimuMax@e691807a7e, configs/system), as one grouped kernel they are 33 % too fast.
/// torch._grouped_mm is one kernel: 30 of its products on an H200 are 10 % off in the mean, where
/// one after the other would be 45 % (platforms/kernels/data/grouped_hopper.csv).
Seconds Roofline::product_time(const Operator& op, double batch, Direction direction) const {
  const auto& [rows, columns, inner, products, window, stride, weights, together] = op.product;
  const double each = std::max(1.0, weights), own = batch * rows / each;
  const double kernels = together ? 1 : each, in_one = together ? each : 1;
  if (direction == Direction::forward)
    return kernels * kernels_of(op).product({own, columns, inner, in_one},
                                            KernelModel::Role::forward, operands_of(op, direction));
  Seconds time{0};
  if (!op.frozen)
    time = kernels * kernels_of(op).product({columns, inner, own, in_one},
                                            adds_gradients_ || (each > 1 && !together)
                                                ? KernelModel::Role::added_gradient
                                                : KernelModel::Role::weight_gradient,
                                            operands_of(op, direction));
  if (op.input_gradient) time += input_gradient(op, batch);
  return time;
}

Seconds Roofline::input_gradient(const Operator& op, double batch) const {
  const ProductShape& product = op.product;
  const double each = std::max(1.0, product.weights);
  const double kernels = product.together ? 1 : each;
  const bool wide = op.storage == StoredAs::int8 && op.always_fp32;
  return kernels *
         (wide ? wide_kernels_ : kernels_of(op))
             .product({batch * product.rows / each, product.inner, product.columns, each / kernels},
                      KernelModel::Role::input_gradient, operands_of(op, Direction::backward));
}

Seconds Roofline::input_gradient_time(const Operator& op, double batch) const {
  const Seconds both = time(op, batch, Direction::backward);
  if (op.kind != OperatorKind::matmul) return both;
  if (op.frozen) return both;
  if (!op.input_gradient) return Seconds(0);
  const bool fitted =
      op.product.columns > 0 && !products_stated_ && kernels_of(op).knows_products();
  const Seconds cast = quantize_time(op, batch, Direction::backward);
  return fitted ? cast + input_gradient(op, batch) : cast + 0.5 * (both - cast);
}

Seconds Roofline::convolution_time(const Operator& op, double batch, Direction direction) const {
  using Role = KernelModel::Role;
  const auto& [rows, columns, inner, groups, window, stride, weights, together] = op.product;
  const Bytes moved =
      batch * op.forward_elements * element(op) + parameter_bytes(op, Direction::forward);
  const KernelModel::Image image{batch, rows, inner / window, columns, window, stride, groups};
  const auto timed = [&](const ProductSize& size, Role role) {
    const Seconds plain = kernels_.convolves_in_fp32()
                              ? kernels_.fp32_convolution(image, role, moved)
                              : kernels_.convolution(size, role, moved);
    return std::min(plain, kernels_.winograd(image, role).value_or(plain));
  };
  if (direction == Direction::forward)
    return timed({batch * rows, columns, inner, groups}, Role::forward);
  Seconds time{0};
  if (!op.frozen) time = timed({columns, inner, batch * rows, groups}, Role::weight_gradient);
  if (op.input_gradient) {
    const ProductSize input = {batch * rows * stride, inner / window, columns * window / stride,
                               groups};
    time += timed(input, Role::input_gradient);
  }
  return time;
}

Seconds Roofline::time(const Unit& unit, double batch, Direction direction) const {
  Seconds sum{0};
  for (const Operator& op : unit.operators) sum += time(op, batch, direction);
  return sum;
}

Seconds Roofline::time(Flops products, OperatorKind kind, Bytes traffic, Seconds floor) const {
  return std::max({products / rate(kind), moved(traffic), floor});
}

Seconds Roofline::moved(Bytes size) const {
  check(memory_.value() > 0, "a GPU without a memory bandwidth has no roofline");
  return size / memory_;
}

Seconds Roofline::optimizer_step(const Model& model, const Optimizer& optimizer) const {
  const std::size_t tensors = model.trained_tensors();
  const Bytes bytes =
      static_cast<double>(model.trainable_parameters()) * optimizer_bytes_per_parameter(optimizer);
  if (adamw_per_parameter_) {
    const Bytes measured = optimizer_bytes_per_parameter({.kind = OptimizerKind::adamw});
    return *adamw_per_parameter_ * (bytes / measured);
  }
  const auto share = memory_stated_ ? std::nullopt : kernels_.optimizer_share(optimizer);
  Seconds moving = share ? bytes / (bandwidth_ * *share) : moved(bytes);
  const auto rate = memory_stated_ ? std::nullopt : kernels_.adamw_8bit();
  if (optimizer.kind == OptimizerKind::adamw_8bit && rate)
    moving = Seconds(static_cast<double>(model.trainable_parameters()) / *rate);
  return std::max(moving, optimizer_kernels(optimizer, tensors) * shares_.launch);
}

/// Gradients are added in fp32 on the way: TransformerEngine's `_2X_ACC_DGRAD` and `_2X_ACC_WGRAD`
/// (pytorch/module/base.py), and `use_fast_accum` of torchao's recipes, which is true of the output
/// alone (float8/config.py: gemm_config_grad_input and gemm_config_grad_weight).
KernelModel::Operands Roofline::operands_of(const Operator& op, Direction direction) const {
  if (!runs_narrow(op)) return KernelModel::Operands::wide;
  return direction == Direction::forward ? KernelModel::Operands::narrow
                                         : KernelModel::Operands::exact_narrow;
}

FlopsPerSecond Roofline::rate(const Operator& op, Direction direction) const {
  if (runs_narrow(op)) return narrow_;
  if (op.kind == OperatorKind::depthwise_convolution) {
    const auto& share = !op.channels_last                           ? shares_.depthwise
                        : activation_element(precision_) < Bytes(4) ? shares_.last_depthwise
                                                                    : shares_.last_depthwise_fp32;
    return vector_ * (direction == Direction::forward ? share.forward : share.backward);
  }
  return runs_wide(op) ? vector_ * shares_.matrix_fp32 : rate(op.kind);
}

FlopsPerSecond Roofline::rate(OperatorKind kind) const {
  check(vector_.value() > 0, "a GPU without an fp32 rate has no roofline");
  switch (kind) {
    case OperatorKind::matmul:
      return matrix_;
    case OperatorKind::convolution:
      return convolution_;
    case OperatorKind::attention:
    case OperatorKind::scan:
      return attention_;
    default:
      return vector_;
  }
}

/// Over 16-bit parameters autocast widens no more than the operators that it runs in fp32.
Bytes Roofline::element(const Operator& op) const {
  if (op.always_fp32) return Bytes(4);
  if (!op.wide) return activation_element(precision_);
  const bool runs_wide = op.kind == OperatorKind::normalization || op.kind == OperatorKind::loss;
  return is_autocast(precision_) && runs_wide ? Bytes(4) : parameter_element(precision_);
}

/// Weights are read forward; backward reads them and writes their gradients. Of an embedding only
/// the rows in use are read (they are among its elements), but its gradient is dense.
Bytes Roofline::parameter_bytes(const Operator& op, Direction direction) const {
  const bool forward = direction == Direction::forward;
  const double written = op.frozen ? 0 : 1;
  const double copies =
      op.kind == OperatorKind::embedding ? (forward ? 0 : written) : (forward ? 1 : 1 + written);
  const Bytes size = has_cast_weights(op.kind) && is_autocast(precision_)
                         ? activation_element(precision_)
                         : parameter_element(precision_);
  return (copies * op.parameter_elements + (forward ? 0 : op.sliced_gradients)) * size;
}

}  // namespace rehearse::inline cost
