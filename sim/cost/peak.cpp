#include "cost/peak.hpp"

#include <algorithm>

namespace rehearse::inline cost {
namespace {

/// The format that convolutions run in where the GPU has it.
Precision convolution_format(Precision precision) {
  return precision == Precision::fp32 ? Precision::tf32 : precision;
}

}  // namespace

FlopsPerSecond convolution_peak(const Gpu& gpu, Precision precision) {
  return gpu.matrix_peak(convolution_format(precision));
}

FlopsPerSecond narrow_peak(const Gpu& gpu, Precision precision) {
  const FlopsPerSecond own = precision == Precision::nvfp4 ? gpu.fp4 : gpu.fp8;
  return own > FlopsPerSecond(0) ? own : gpu.matrix_peak(precision);
}

bool multiplies_on_tensor_cores(const Gpu& gpu, Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return false;
    case Precision::tf32:
      return gpu.tf32 > FlopsPerSecond(0);
    case Precision::fp16:
    case Precision::fp16_pure:
    case Precision::fp16_pure_autocast:
    case Precision::fp16_master:
      return gpu.fp16 > FlopsPerSecond(0);
    case Precision::bf16:
    case Precision::bf16_pure:
    case Precision::bf16_pure_autocast:
    case Precision::bf16_master:
    case Precision::fp8:
    case Precision::mxfp8:
    case Precision::nvfp4:
      return gpu.bf16 > FlopsPerSecond(0);
  }
  return false;
}

bool convolves_on_tensor_cores(const Gpu& gpu, Precision precision) {
  return multiplies_on_tensor_cores(gpu, convolution_format(precision));
}

FlopsPerSecond peak_for(const Model& model, const Gpu& gpu, Precision precision) {
  // A GPU whose tf32 rate is below fp32's would not convolve in it to lose time.
  const FlopsPerSecond matrix = gpu.matrix_peak(precision);
  const FlopsPerSecond convolution = std::max(matrix, convolution_peak(gpu, precision));
  const FlopsPerSecond narrow = narrow_peak(gpu, precision);
  Flops work;
  Seconds at_peak;
  for (const Unit& unit : model.units) {
    for (const Operator& op : unit.operators) {
      const Flops flops(op.forward_flops + op.backward_flops);
      work += flops;
      at_peak += flops / (op.kind == OperatorKind::convolution ? convolution
                          : op.runs_narrow(precision)          ? narrow
                                                               : matrix);
    }
  }
  return at_peak > Seconds(0) ? work / at_peak : matrix;
}

}  // namespace rehearse::inline cost
