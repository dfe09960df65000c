#include "cost/peak.hpp"

#include <algorithm>

namespace rehearse {
namespace {

/// The format that convolutions run in where the GPU has it.
Precision convolution_format(Precision precision) {
  return precision == Precision::fp32 ? Precision::tf32 : precision;
}

}  // namespace

FlopsPerSecond convolution_peak(const Gpu& gpu, Precision precision) {
  return gpu.matrix_peak(convolution_format(precision));
}

bool convolves_on_tensor_cores(const Gpu& gpu, Precision precision) {
  switch (convolution_format(precision)) {
    case Precision::fp32:
      return false;
    case Precision::tf32:
      return gpu.tf32 > FlopsPerSecond(0);
    case Precision::fp16:
      return gpu.fp16 > FlopsPerSecond(0);
    case Precision::bf16:
    case Precision::bf16_pure:
      return gpu.bf16 > FlopsPerSecond(0);
  }
  return false;
}

FlopsPerSecond peak_for(const Model& model, const Gpu& gpu, Precision precision) {
  const FlopsPerSecond matrix = gpu.matrix_peak(precision);
  if (!model.has_operator(OperatorKind::convolution)) return matrix;
  return std::max(matrix, convolution_peak(gpu, precision));
}

}  // namespace rehearse
