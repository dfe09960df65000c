#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/sizes.hpp"

namespace rehearse::inline model {

/// Types of elements. `narrow`: bf16 or fp16, whichever the precision computes in.
enum class ElementType : std::uint8_t { fp32, narrow, int64, int32, byte, boolean, complex64 };

/// How a tensor lies in memory.
enum class MemoryLayout : std::uint8_t { contiguous, channels_last, strided };

/// A tensor as a kernel reads or writes it. A dimension that is expanded has the size 1.
struct KernelView {
  Sizes sizes;
  ElementType type = ElementType::fp32;
  MemoryLayout layout = MemoryLayout::contiguous;

  bool operator==(const KernelView&) const = default;
};

/// Part of a kernel in a step. `gradient`: of an input, or of all inputs at once; `gathered`:
/// autograd's engine adds gradients up, sums what was broadcast, or converts.
enum class KernelRole : std::uint8_t { forward, gradient, weight_gradient, gathered };

/// One call of an operator of PyTorch (aten) that takes memory or writes to it, as a
/// TorchDispatchMode below autograd sees it.
struct Kernel {
  std::string_view op;  ///< "mm", "native_layer_norm"; one of the library's own: its name
  std::vector<KernelView> reads = {}, writes = {};
  /// Numbers and flags that change what it costs, by PyTorch's names ("is_causal").
  std::vector<std::pair<std::string_view, std::vector<double>>> options = {};
  KernelRole role = KernelRole::forward;
  bool remade = false;     ///< of forward, run again in backward
  std::uint32_t node = 0;  ///< of autograd: kernels of one node have its number
};

/// Kernels of a unit, in the order of the host.
struct UnitKernels {
  std::vector<Kernel> forward, backward;
};

}  // namespace rehearse::inline model
