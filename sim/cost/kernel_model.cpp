#include "cost/kernel_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/peak.hpp"

namespace rehearse::inline cost {
namespace {

const ProductCurve* curve_of(const KernelCurves& curves, const std::string& format) {
  const auto found = curves.products.find(format);
  return found == curves.products.end() ? nullptr : &found->second;
}

/// The format that a precision's products run in; null: none that tables know.
const char* format_of(const Gpu& gpu, Precision precision) {
  if (!multiplies_on_tensor_cores(gpu, precision)) return "fp32";
  return precision == Precision::tf32 ? "tf32" : "tensor";
}

/// Heads of 192 channels with values of 128 (MLA) beside those of 128 and 128, causal, 64 and 128
/// heads, 4,096 tokens on a B200: 935 of 1,121 TFLOP/s forward, 723 of 935 backward
/// (MooreThreads/SimuMax@4dcaae513b, configs/system).
double unlike_widths_speed(bool backward) { return backward ? 0.773 : 0.834; }

/// Random numbers for each probability: GPT-2 XL's attention beside GPT-2's without dropout, cuDNN
/// 9.19 on an H200 (tests/validation/hopper): 84 of 194 us forward, 282 of 347 us backward.
double dropout_speed(bool backward) { return backward ? 0.81 : 0.43; }

Nearness nearness(const MeasuredKernels* measured, const std::vector<double>& sizes) {
  if (measured == nullptr) return {};
  return {measured, distance(*measured, sizes)};
}

}  // namespace

double library_speed(AttentionKernel library, bool backward) {
  switch (library) {
    case AttentionKernel::flash1:
      return 1 / 2.26;
    case AttentionKernel::sdpa:
    case AttentionKernel::flash2:
      return 1;
    case AttentionKernel::flash3:
    case AttentionKernel::cudnn:
    case AttentionKernel::cudnn_fp8:
      return backward ? 1.62 : 1.73;
    case AttentionKernel::triton:
      return 1 / 1.8;
  }
  return 1;
}

AttentionKernel attention_library(AttentionKernel asked, const Gpu& gpu) {
  if (asked != AttentionKernel::sdpa) return asked;
  return gpu.architecture->sdpa_is_cudnn ? AttentionKernel::cudnn : AttentionKernel::flash2;
}

KernelModel::KernelModel(const Gpu& gpu, Precision precision)
    : curves_(gpu.curves),
      element_(activation_element(precision)),
      cudnn_is_faster_(gpu.architecture->cudnn_attention_faster),
      format_(format_of(gpu, precision)) {
  if (!curves_) return;
  const double sms = gpu.multiprocessors();
  const std::string& format = format_;
  // Other formats were measured in frameworks, or on units that draw less power.
  if (format == "tensor") sustained_ = curves_->sustained;
  product_ = curve_of(*curves_, format);
  device_ = {gpu.matrix_peak(precision).value(), gpu.memory_bandwidth.value(), sms};
  if (curves_->device) take_measured(format);
  narrow_ = curve_of(*curves_, "fp8");  // FP4, which no open table has, takes its shares
  narrow_device_ = device_;
  narrow_device_.peak = narrow_peak(gpu, precision).value();
  // Shapes that a library does well or badly are those of one chip's kernels.
  has_residual_ = format == "tensor" && sms == curves_->sms;
  wide_ = element_ > Bytes(2);
  attends_ = std::ranges::count(curves_->attention, wide_, &AttentionCurve::wide) > 0;
  of_products_ = curves_->find_measured("gemm " + format);
  of_narrow_ = narrow_ != nullptr ? curves_->find_measured("gemm fp8") : of_products_;
  of_convolutions_ = curves_->find_measured("convolution");
  of_rows_ = curves_->find_measured("rows, 16 bits");
  of_pointwise_ = curves_->find_measured("pointwise, 16 bits");
  of_wide_rows_ = curves_->find_measured("rows, fp32");
  of_wide_pointwise_ = curves_->find_measured("pointwise, fp32");
  if (!convolves_on_tensor_cores(gpu, precision)) {
    take_fp32_convolutions();
    return;
  }
  const ProductCurve* base = product_;
  if (precision == Precision::fp32) base = curve_of(*curves_, "tf32");
  if (base == nullptr) return;
  convolution_ = *base;
  if (multiplies_fp32_as_fast(gpu, precision)) winograd_ = *base;
  const bool in_tf32 = base != curve_of(*curves_, "tensor") && curves_->tf32_convolution > 0;
  convolution_.share *= in_tf32 ? curves_->tf32_convolution : curves_->convolution * sustained_;
  convolution_weight_ = in_tf32 ? curves_->tf32_convolution_weight : 1;
  convolution_.prologue = curves_->convolution_prologue;
  convolution_.small_tiles = curves_->convolution_small_tiles;
  convolution_device_ = {convolution_peak(gpu, precision).value(), gpu.memory_bandwidth.value(),
                         sms};
}

/// Shares are of the rates that were measured with them.
void KernelModel::take_measured(const std::string& format) {
  const DeviceKernels& measured = *curves_->device;
  memory_measured_ = measured.memory_bandwidth.value() / device_.bandwidth;
  device_.bandwidth = measured.memory_bandwidth.value();
  const FlopsPerSecond peak = format == "fp32"   ? measured.fp32
                              : format == "tf32" ? measured.tf32
                                                 : measured.tensor;
  if (peak > FlopsPerSecond(0)) device_.peak = peak.value();
}

Seconds KernelModel::product(const ProductSize& size, Role role, Operands operands) const {
  const std::array<double, 5> key = {
      size.rows, size.columns, size.inner, size.batch,
      static_cast<double>(role) + 10 * static_cast<double>(operands)};
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new)
    found->second = operands == Operands::wide ? product_uncached(size, role)
                                               : narrow_product(size, role, operands);
  return found->second;
}

double KernelModel::role_share(Role role) const {
  if (format_ == "tf32" && curves_->tf32_weight_gradient > 0 && role != Role::forward)
    return role == Role::input_gradient ? curves_->tf32_input_gradient
                                        : curves_->tf32_weight_gradient;
  if (role == Role::input_gradient) return curves_->input_gradient;
  return role == Role::forward ? 1 : curves_->weight_gradient;
}

/// A gradient that is added to what is kept in fp32: each tile of that is read and written behind
/// its product, beside few others, so that this time overlaps less than the operands'. Of 28
/// products of experts on a B200 (MooreThreads/SimuMax@e691807a7e, configs/system) the exponent is
/// the best of six. The 12 that add in fp32 are 7.7 % off in the mean with it, 14.8 % where all
/// bytes overlap alike; the 16 that add in 16 bits 12 and 11 %. Dense products of the same source,
/// which did not choose it, take 5 % longer than forward ones where their sums' bytes alone would
/// take 12 % (A100), and 15 to 20 % where they would take 27 % (B200): this says 5 and 17 %.
Seconds KernelModel::timed(const ProductCurve& curve, const KernelDevice& device,
                           const ProductSize& size, Role role, Bytes operands) const {
  constexpr double kSharpnessOfSums = 1.3;
  constexpr Bytes kAdded(2 * 4);
  const double results = size.batch * size.rows * size.columns;
  if (role != Role::added_gradient)
    return product_time(curve, device, size, operands + results * element_);
  const Seconds product = product_time(curve, device, size, operands) - curve.launch;
  const double sums = results * kAdded.value() / (curve.traffic * device.bandwidth);
  return curve.launch + Seconds(std::pow(std::pow(product.value(), kSharpnessOfSums) +
                                             std::pow(sums, kSharpnessOfSums),
                                         1 / kSharpnessOfSums));
}

/// cuBLAS fills the multiprocessors where a single small tile has a long inner dimension, as the
/// gradient of an 8 x 8 weight over millions of rows. No measured product is such a one: a guess,
/// without which it would take 25 times what its bytes do.
constexpr double kMostSplits = 128, kSmallestTile = 64 * 32;

/// Those in 8 bits reach alone what others measured under lasting load.
Seconds KernelModel::narrow_product(const ProductSize& size, Role role, Operands operands) const {
  check(product_ != nullptr, "a product without a curve");
  ProductCurve curve = narrow_ != nullptr ? *narrow_ : *product_;
  curve.share *= role_share(role) * (narrow_ != nullptr ? 1 : sustained_);
  if (operands == Operands::exact_narrow) curve.share *= curves_->exact_fp8;
  const Bytes bytes(size.batch * (size.rows * size.inner + size.inner * size.columns));
  return timed(curve, narrow_device_, size, role, bytes);
}

Seconds KernelModel::product_uncached(const ProductSize& size, Role role) const {
  check(product_ != nullptr, "a product without a curve");
  ProductCurve curve = *product_;
  if (size.rows * size.columns <= kSmallestTile) curve.most_splits = kMostSplits;
  curve.share *= sustained_ * role_share(role);
  const Bytes operands =
      size.batch * (size.rows * size.inner + size.inner * size.columns) * element_;
  Seconds time = timed(curve, device_, size, role, operands);
  if (has_residual_) time = time * std::exp(residual(*curves_, size));
  const FlopsPerSecond rate = unaligned_rate(size, role);
  if (rate.value() == 0) return time;
  return std::max(time, Flops(2 * size.batch * size.rows * size.columns * size.inner) / rate);
}

/// Rows of operands and results are as long as a linear layer's two sides, whichever pass: those of
/// a weight's gradient are `rows` and `columns`. Fast kernels load 16 bytes at once.
FlopsPerSecond KernelModel::unaligned_rate(const ProductSize& size, Role role) const {
  const bool of_weight = role == Role::weight_gradient || role == Role::added_gradient;
  const auto aligned = [&](double elements) {
    return std::fmod(size.columns, elements) == 0 &&
           std::fmod(of_weight ? size.rows : size.inner, elements) == 0;
  };
  FlopsPerSecond rate{0};
  if (format_ == "tf32" && !aligned(4)) rate = curves_->unaligned_tf32;
  if (format_ == "tensor" && !aligned(4))
    rate = aligned(2) ? curves_->half_aligned : curves_->unaligned;
  else if (format_ == "tensor" && size.batch > 1 && !aligned(8))
    rate = curves_->batched_by_four;
  return device_.sms * rate;
}

std::optional<double> KernelModel::optimizer_share(const Optimizer& optimizer) const {
  if (!curves_ || !curves_->optimizer) return std::nullopt;
  const OptimizerShares& shares = *curves_->optimizer;
  // All in 16 bits; with master weights most bytes are fp32.
  const Optimizer wide{.kind = optimizer.kind, .fused = optimizer.fused};
  const bool narrow =
      optimizer_bytes_per_parameter(optimizer) < 0.6 * optimizer_bytes_per_parameter(wide);
  if (optimizer.fused) return narrow ? shares.narrow_fused : shares.fused;
  return narrow ? shares.narrow_foreach : shares.foreach;
}

/// PyTorch norms bf16 by kernels of its own, and fp16 whose parameters are fp16; all else is
/// cuDNN's
/// (_select_batch_norm_backend in aten/src/ATen/native/Normalization.cpp). Of contiguous tensors a
/// block norms a channel. cuDNN's take as long for an element of fp16 as for one of fp32: a guess.
Seconds KernelModel::batch_norm(const Operator& op, double batch, Precision precision,
                                bool backward) const {
  const bool own = is_bf16(precision) || parameter_element(precision) == Bytes(2);
  const NormRates* rates = nullptr;
  if (!own && !op.channels_last) rates = &curves_->norm_fp32;
  if (own) rates = op.channels_last ? &curves_->norm_bf16_last : &curves_->norm_bf16;
  const std::size_t way = backward ? 1 : 0;
  if (rates == nullptr || rates->all[way] == 0) return Seconds(0);
  const Seconds all(batch * op.normed / (rates->all[way] * device_.sms));
  if (rates->channel[way] == 0) return all;
  return all + Seconds(batch * op.normed / (rates->channel[way] * op.channels));
}

Seconds KernelModel::image_kernel(const Operator& op, double batch, double elements,
                                  Precision precision, bool backward) const {
  if (!curves_) return Seconds(0);
  if (op.normed > 0) return batch_norm(op, batch, precision, backward);
  double rate = op.kind == OperatorKind::layout ? curves_->conversion : 0;
  if (op.pooled > 0) {
    rate = (op.channels_last ? curves_->max_pool_last : curves_->max_pool)[backward ? 1 : 0];
    elements = batch * op.pooled;
  }
  return rate > 0 ? Seconds(elements / (rate * device_.sms)) : Seconds(0);
}

std::optional<double> KernelModel::adamw_8bit() const {
  if (!curves_ || curves_->adamw_8bit == 0) return std::nullopt;
  return curves_->adamw_8bit * device_.sms;
}

std::optional<double> KernelModel::unvectorized() const {
  if (!curves_ || curves_->unvectorized == 0) return std::nullopt;
  return curves_->unvectorized * device_.sms;
}

Seconds KernelModel::convolution(const ProductSize& size, Role role, Bytes moved) const {
  check(knows_convolutions(), "a convolution without a curve");
  ProductCurve curve = convolution_;
  if (role == Role::weight_gradient) curve.share *= convolution_weight_;
  return product_time(curve, convolution_device_, size, moved);
}

std::optional<double> KernelModel::memory_share(const Operator& op, Bytes element,
                                                bool backward) const {
  if (!curves_) return std::nullopt;
  const bool wide = element > Bytes(2);
  double share = wide ? curves_->wide_pointwise : curves_->pointwise;
  if (op.by_row && backward) share = wide ? curves_->wide_rows_backward : curves_->rows_backward;
  if (op.by_row && !backward) share = wide ? curves_->wide_rows : curves_->rows;
  return share * memory_measured_;
}

/// Of cuDNN where that was measured, else of FlashAttention-2.
const AttentionCurve& KernelModel::attention_curve(double width, bool cudnn) const {
  check(knows_attention(), "attention without a curve");
  const AttentionCurve* nearest = nullptr;
  const auto off = [&](const AttentionCurve& one) {
    return std::pair(one.cudnn != cudnn, std::abs(std::log(one.width / width)));
  };
  for (const AttentionCurve& one : curves_->attention) {
    if (one.wide != wide_ || (one.cudnn && !cudnn)) continue;
    if (nearest == nullptr || off(one) < off(*nearest)) nearest = &one;
  }
  return *nearest;
}

Seconds KernelModel::attention(const AttentionSize& size, bool backward,
                               AttentionKernel library) const {
  const bool cudnn = is_cudnn(library);
  const AttentionCurve& curve = attention_curve(size.width, cudnn);
  AttentionPass pass = backward ? curve.backward : curve.forward;
  const bool as_measured = cudnn && (curve.cudnn || !cudnn_is_faster_ || wide_);
  if (!as_measured) pass.share *= library_speed(library, backward);
  if (size.unlike) pass.share *= unlike_widths_speed(backward);
  if (size.dropout && curve.cudnn) pass.share *= dropout_speed(backward);
  KernelDevice device = device_;
  if (wide_) device.bandwidth /= 2;  // the closed form counts elements of two bytes
  const Seconds time = attention_time(pass, device, size, backward);
  const double narrow = curves_->fp8_attention.at(backward ? 1 : 0);
  return library == AttentionKernel::cudnn_fp8 && narrow > 0 ? narrow * time : time;
}

Nearness KernelModel::near_product(const ProductSize& size, bool narrow) const {
  return nearness(narrow ? of_narrow_ : of_products_, {size.rows, size.columns, size.inner});
}

Nearness KernelModel::near_convolution(const ProductSize& size) const {
  return nearness(of_convolutions_, {size.rows, size.columns, size.inner});
}

/// Heads as wide as none that was measured are as far off as their width.
Nearness KernelModel::near_attention(const AttentionSize& size, AttentionKernel library) const {
  const AttentionCurve& curve = attention_curve(size.width, is_cudnn(library));
  const char* const kind = wide_ ? ", fp32" : curve.cudnn ? ", cudnn" : "";
  Nearness near =
      nearness(curves_->find_measured(fmt::format("attention {:.0f}{}", curve.width, kind)),
               {size.tokens, size.batch * size.heads});
  near.distance = std::max({near.distance, curve.width / size.width, size.width / curve.width});
  return near;
}

Nearness KernelModel::near_memory(const Operator& op, Bytes element, Bytes moved) const {
  const bool wide = element > Bytes(2);
  const MeasuredKernels* rows = wide ? of_wide_rows_ : of_rows_;
  const MeasuredKernels* pointwise = wide ? of_wide_pointwise_ : of_pointwise_;
  return nearness(op.by_row ? rows : pointwise, {moved.value()});
}

}  // namespace rehearse::inline cost
