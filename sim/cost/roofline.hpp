#pragma once

#include "cost/cost.hpp"
#include "cost/kernel_model.hpp"
#include "cost/kernel_shares.hpp"

namespace rehearse::captured {
struct Product;
struct Work;
}  // namespace rehearse::captured

namespace rehearse::inline cost {

/// Family that speaks for an operator's time, and how near the operator is to what that was
/// measured on.
struct OperatorBasis {
  CostFamily family = CostFamily::pointwise;
  Nearness near{};  ///< of no fit: shares speak, or a scenario
};

/// Operators whose weights autocast copies to 16 bits: once per step, kept until backward.
bool has_cast_weights(OperatorKind kind);
/// True for a product's bias, which the product's kernel adds. Autocast converts it, too.
bool is_bias(const Operator& op);

/// The rates that bound kernels on one GPU, and the rules of one precision.
class Roofline {
 public:
  /// `adds_gradients`: products add weights' gradients to fp32 (Optimizer::wide_gradients).
  Roofline(const Gpu& gpu, Precision precision, const AnalyticEfficiency& efficiency,
           bool adds_gradients = false);

  /// A launch, and the larger of the operator's arithmetic over the peak and its bytes over the
  /// memory rate (both times the share that is reached). Under autocast, conversions of
  /// weights and activations cost their traffic. InternalError if a rate that is needed is zero.
  Seconds time(const Operator& op, double batch, Direction direction) const;
  /// Basis of `time`; for backward that of the product that lies farthest from what was measured.
  OperatorBasis basis(const Operator& op, double batch, Direction direction) const;
  /// Time of the part of backward that stands in front of the weight's gradient alone.
  Seconds input_gradient_time(const Operator& op, double batch) const;
  /// Time of all operators of a unit.
  Seconds time(const Unit& unit, double batch, Direction direction) const;
  /// Time of a unit of which no more is known than the work of its products (those of convolutions
  /// where `kind` is convolution) and its traffic; no less than `floor`.
  Seconds time(Flops products, OperatorKind kind, Bytes traffic, Seconds floor) const;
  /// Copying at the memory rate that is reached.
  Seconds moved(Bytes size) const;
  /// One step over all of the model's parameters: bound by memory, or by the kernels' number.
  Seconds optimizer_step(const Model& model, const Optimizer& optimizer) const;

  Seconds launch() const { return shares_.launch; }
  /// Conversions of layouts that cuDNN launches within a call of a captured model's convolution.
  double captured_conversions(const captured::Kernel& kernel) const;

 private:
  // Of captured models (captured_time.cpp): calls of a kernel in its own pass.
  Seconds captured_time(const captured::Kernel& kernel, double batch, Direction direction) const;
  Seconds product_time(const captured::Product& product) const;
  Seconds moving_time(const captured::Work& work, bool backward) const;
  OperatorBasis captured_basis(const Operator& op, double batch, Direction direction) const;
  std::optional<Seconds> scan_time(const Scan& scan, double batch) const;
  /// Time without what is computed once more.
  Seconds single_time(const Operator& op, double batch, Direction direction) const;
  FlopsPerSecond rate(OperatorKind kind) const;
  FlopsPerSecond rate(const Operator& op, Direction direction) const;
  bool runs_wide(const Operator& op) const;
  enum class Curve { none, product, heads, attention, math, convolution };
  Curve curve_of(const Operator& op) const;
  Nearness near_product(const Operator& op, double batch, Direction direction) const;
  /// Time of the operator by the kernel model; nothing where that says nothing.
  std::optional<Seconds> kernel_time(const Operator& op, double batch, Direction direction) const;
  Seconds product_time(const Operator& op, double batch, Direction direction) const;
  Seconds input_gradient(const Operator& op, double batch) const;
  Seconds convolution_time(const Operator& op, double batch, Direction direction) const;
  Seconds products_of_heads(const ProductShape& product, double batch, Direction direction) const;
  /// Attention whose scores PyTorch's math implementation materialises.
  Seconds math_attention(const Operator& op, double batch, Direction direction) const;
  Nearness near_math_attention(const Operator& op, double batch) const;
  Bytes element(const Operator& op) const;
  BytesPerSecond reached_memory(const Operator& op, bool backward) const;
  Bytes parameter_bytes(const Operator& op, Direction direction) const;
  Seconds cast_time(const Operator& op, double elements, Direction direction) const;
  Seconds cast_time(double elements, bool widens) const;
  Seconds eager_time(const EagerKernels& eager, double batch, Bytes element) const;
  Seconds unvectorized_time(double elements) const;
  Seconds image_time(const Operator& op, double batch, double elements, Direction direction) const;
  bool is_converted(const Operator& op) const;
  AttentionKernel library_of(const Operator& op) const;
  const KernelModel& kernels_of(const Operator& op) const;
  double fused_factor(const Operator& op, Direction direction) const;
  Seconds dequantize_time(const Operator& op) const;
  Seconds weight_cast_time(const Operator& op, Direction direction) const;
  bool runs_narrow(const Operator& op) const { return op.runs_narrow(precision_); }
  KernelModel::Operands operands_of(const Operator& op, Direction direction) const;
  /// Makes 8 bits of a product's input forward, and of its output's gradient backward.
  Seconds quantize_time(const Operator& op, double batch, Direction direction) const;
  Seconds float8_time(const Operator& op, double batch, Direction direction) const;

  Precision precision_;
  bool adds_gradients_;
  std::optional<Seconds> adamw_per_parameter_;  ///< as it was measured
  KernelModel kernels_, wide_kernels_;
  AttentionKernel sdpa_;
  bool products_stated_, attention_stated_, memory_stated_;
  BytesPerSecond bandwidth_;
  ReachedShares shares_;
  bool converts_layout_;
  double multiprocessors_;  ///< 0: not known
  FlopsPerSecond matrix_, narrow_, convolution_, attention_, vector_;
  BytesPerSecond memory_, operands_;
};

}  // namespace rehearse::inline cost
