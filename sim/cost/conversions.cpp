// What stands beside an operator's own kernel: conversions of formats, and what eager modules
// compute in kernels of their own.
#include <algorithm>

#include "cost/peak.hpp"
#include "cost/roofline.hpp"

namespace rehearse::inline cost {
namespace {

/// A conversion reads 4 bytes and writes 2, or the other way round.
constexpr Bytes kCastBytes{6};

}  // namespace

bool has_cast_weights(OperatorKind kind) {
  return kind == OperatorKind::matmul || kind == OperatorKind::convolution ||
         kind == OperatorKind::depthwise_convolution;
}

bool is_bias(const Operator& op) {
  return op.kind == OperatorKind::elementwise && op.forward_elements == 0 &&
         op.eager_forward.kernels == 0 && op.parameter_elements > 0;
}

/// Vectorized kernels are bound by their bytes, others by the elements that they write.
Seconds Roofline::eager_time(const EagerKernels& eager, double batch, Bytes element) const {
  const double converted = element < Bytes(4) ? eager.converted : 0;
  const Bytes bytes = eager.moved * Bytes(4) + eager.plain * element + converted * kCastBytes;
  return eager.kernels * shares_.launch + moved(batch * bytes) +
         unvectorized_time(batch * (eager.written + converted));
}

Seconds Roofline::unvectorized_time(double elements) const {
  const auto rate = memory_stated_ ? std::nullopt : kernels_.unvectorized();
  return rate ? Seconds(elements / *rate) : moved(elements * kCastBytes);
}

/// Conversions are autocast's, but for those that the model's code asks for.
Seconds Roofline::cast_time(const Operator& op, double elements, Direction direction) const {
  // A softmax reads fp16 itself, and writes fp32.
  const bool reads_fp16 =
      precision_ == Precision::fp16_master || precision_ == Precision::fp16_pure;
  const bool converts =
      op.always_fp32 ? activation_element(precision_) < Bytes(4) && !(op.by_row && reads_fp16)
                     : is_autocast(precision_);
  const bool widens = (direction == Direction::forward) != op.wide;
  return converts ? cast_time(elements, widens) : Seconds(0);
}

/// PyTorch's kernel that makes fp32 of 16 bits is not vectorized.
Seconds Roofline::cast_time(double elements, bool widens) const {
  if (elements == 0) return Seconds(0);
  const Seconds bytes = moved(elements * kCastBytes);
  return shares_.launch + (widens ? std::max(bytes, unvectorized_time(elements)) : bytes);
}

/// A cast that Inductor writes turned around, over one along rows: by how much longer it takes a
/// byte. Of a whole tensor's scale both copies are written at 1.4 TB/s where other casts reach 2.2
/// (H100 of 2.4 TB/s, pytorch/pytorch issue 133242); with a scale of each column 0.65 where rows
/// reach 2.1 (issue 149982).
constexpr double kTurned = 2.2 / 1.4, kColumns = 2.1 / 0.65;

/// torchao's casts, compiled: one kernel reads a side for its largest element, and one reads it and
/// writes FP8. Backward needs the weight and the input once more, turned around, and the gradient
/// as rows and as columns: tensorwise of one scale, rowwise with a scale of their own each. Of what
/// DTensor gathers as bytes each rank casts its part, and bytes are turned. Backward's products of
/// rows' scales are cuBLAS's of one scale, whose results a kernel multiplies by both sides' scales
/// (float8_ops.py: addmm_float8_unwrapped(), where use_fast_accum is false).
Seconds Roofline::float8_time(const Operator& op, double batch, Direction direction) const {
  const bool trained = !op.frozen, rowwise = op.float8 == Float8::rowwise;
  const double inputs = rowwise ? 1 : op.input_ranks, gradients = rowwise ? 1 : op.gradient_ranks;
  const double input = batch * op.quantized_input, weight = op.parameter_elements;
  const double gradient = batch * op.product.rows * op.product.columns;
  constexpr Bytes kRead{2}, kCast{2 + 1}, kTwo{2 + 1 + 1}, kBytes{1 + 1};
  if (direction == Direction::forward) {
    const double kernels = op.quantized_input > 0 ? 4 : 2;
    return kernels * shares_.launch + moved((input / inputs + weight) * (kRead + kCast));
  }
  if (op.backward_flops == 0) return Seconds(0);
  const double slow = rowwise ? kColumns : kTurned;
  const Bytes made = rowwise         ? kRead + kCast + slow * kCast
                     : gradients > 1 ? (kRead + kCast) / gradients + slow * kBytes
                                     : kRead + slow * kTwo;
  const double results =
      (op.input_gradient ? batch * op.product.rows * op.product.inner : 0) + (trained ? weight : 0);
  const Bytes scaled = rowwise ? results * Bytes(2 + 2) : Bytes(0);
  const Bytes again = trained ? input * (slow * (inputs > 1 ? kBytes : kCast)) : Bytes(0);
  return 5 * shares_.launch + moved(gradient * made + weight * (slow * kCast) + again + scaled);
}

/// TransformerEngine's cast_transpose: 16 bits are read, and 8 written twice, as rows and as
/// columns. NVFP4 takes three kernels, each of which reads them: the largest elements with and
/// without the random Hadamard transform, the rows, and the transformed columns (NVFP4Quantizer in
/// pytorch/csrc/quantizer.cpp).
Seconds Roofline::quantize_time(const Operator& op, double batch, Direction direction) const {
  if (!runs_narrow(op)) return Seconds(0);
  if (op.float8 != Float8::none) return float8_time(op, batch, direction);
  const double elements = direction == Direction::forward ? op.quantized_input
                          : op.backward_flops > 0         ? op.product.rows * op.product.columns
                                                          : 0;
  if (elements == 0) return Seconds(0);
  const double kernels = precision_ == Precision::nvfp4 ? 3 : 1;
  const Bytes element = kernels * Bytes(2) + 2 * narrow_element(precision_);
  return kernels * shares_.launch + moved(batch * elements * element);
}

/// Of a quantized weight 16 bits are made for each use: a kernel that reads the one and writes the
/// other. LLM.int8's products read the bytes themselves, and their inputs are made bytes.
Seconds Roofline::dequantize_time(const Operator& op) const {
  if (op.storage < StoredAs::int8) return Seconds(0);
  const Bytes element = stored_element(op.storage, precision_) + Bytes(2);
  return shares_.launch + moved(op.parameter_elements * element);
}

/// Forward casts the weights, backward their gradients; not those that have 16 bits.
Seconds Roofline::weight_cast_time(const Operator& op, Direction direction) const {
  const Bytes stored = stored_element(op.storage, precision_);
  const bool casts = is_autocast(precision_) && (has_cast_weights(op.kind) || is_bias(op)) &&
                     op.storage < StoredAs::int8 && stored > Bytes(2);
  const bool backward = direction == Direction::backward;
  return casts && !(backward && op.frozen) ? cast_time(op.parameter_elements, backward)
                                           : Seconds(0);
}

}  // namespace rehearse::inline cost
