#pragma once

#include "kernels/kernel_curves.hpp"

namespace rehearse::inline kernels {

/// A matrix product `rows` x `inner` by `inner` x `columns`, `batch` times in one kernel.
struct ProductSize {
  double rows = 0, columns = 0, inner = 0, batch = 1;
};

/// Fused attention of one batch. `width`: of a head's keys and values, their mean.
struct AttentionSize {
  double batch = 0, tokens = 0, heads = 0, kv_heads = 0, width = 0;
  bool causal = false;
  double keys = 0;       ///< as many as `tokens` where 0
  double window = 0;     ///< keys that a query sees at most; 0: all
  bool unlike = false;   ///< a head's keys and values have widths of their own
  bool dropout = false;  ///< on the probabilities
};

/// The numbers that the closed forms need of a GPU, in one format.
struct KernelDevice {
  double peak = 0;       ///< FLOP/s
  double bandwidth = 0;  ///< bytes/s
  double sms = 0;
};

// The closed forms of platforms/kernels/closed_forms.py: what the fits are of. Without residuals
// and lasting load. No time falls as a size grows.

/// `moved`: bytes that the kernel reads and writes.
Seconds product_time(const ProductCurve& curve, const KernelDevice& device, const ProductSize& size,
                     Bytes moved);
/// Forward does two products a block, backward five.
Seconds attention_time(const AttentionPass& pass, const KernelDevice& device,
                       const AttentionSize& size, bool backward);
/// ln(time) that the residual adds; 0 where there is none.
double residual(const KernelCurves& curves, const ProductSize& size);

}  // namespace rehearse::inline kernels
