#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel_fit.hpp"
#include "measure/device.hpp"

namespace rehearse::inline calibrate {

/// Products of one format, in the three layouts of a linear layer.
struct FormatPoints {
  Precision format = Precision::fp32;
  std::vector<ProductPoint> forward, input_gradient, weight_gradient;
};

/// Causal attention as networks call it, by width of a head and bytes of an element.
struct AttentionPoints {
  double width = 0;
  Bytes element;
  std::vector<AttentionPoint> forward, backward;
};

/// Kernels that memory bounds, on elements of so many bytes.
struct MemoryPoints {
  Bytes element;
  std::vector<MemoryPoint> pointwise, rows, rows_backward;
};

/// A handful of kernels of each family, timed.
struct KernelPoints {
  std::vector<FormatPoints> products;
  std::vector<AttentionPoints> attention;
  std::vector<MemoryPoints> memory;
  std::vector<MemoryPoint> copies;
  Seconds launch;                   ///< of a kernel on hardly any elements
  Seconds optimizer_per_parameter;  ///< adamw as PyTorch runs it by default, fp32
};

/// Times each; `progress` is told the share that is done, and `stop` is asked between kernels:
/// nothing where it said so. Two minutes on two cores of a CPU, less on a GPU. Operands change from
/// call to call, so that caches hold no more of them than in a training step.
std::optional<KernelPoints> measure_kernels(MeasuredDevice& device,
                                            const std::function<void(double share)>& progress,
                                            const std::function<bool()>& stop);

}  // namespace rehearse::inline calibrate
