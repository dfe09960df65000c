#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_forms.hpp"

namespace rehearse::inline kernels {

/// A kernel that was measured.
struct ProductPoint {
  ProductSize size;
  Bytes moved;  ///< that it reads and writes
  Seconds time;
};
struct AttentionPoint {
  AttentionSize size;
  bool backward = false;
  Seconds time;
};
struct MemoryPoint {
  Bytes moved;
  Seconds time;
};

// Fits of the closed forms to a handful of shapes, by least squares of ln(time), with outliers
// softened. Every number starts from a shipped GPU's, and is drawn to it as by one point that is
// off by e: few points move what they say nothing of but little. As platforms/kernels/fit writes:
// errors are those of each point by a fit to all others. At least one point.

struct ProductFit {
  ProductCurve curve;
  KernelError error;
};
/// `start`: what the numbers are drawn to; its sharpness and split stay. `family` names the error.
ProductFit fit_products(const std::vector<ProductPoint>& points, const KernelDevice& device,
                        const ProductCurve& start, const std::string& family);

struct AttentionFit {
  AttentionPass pass;
  KernelError error;
};
/// Fits points that are all of one direction; the tail stays as in `start`.
AttentionFit fit_attention(const std::vector<AttentionPoint>& points, const KernelDevice& device,
                           const AttentionPass& start, const std::string& family);

struct BandwidthFit {
  double share = 0;  ///< of `bandwidth`
  KernelError error;
};
/// Fits kernels that take a launch and their bytes: the median share.
BandwidthFit fit_memory(const std::vector<MemoryPoint>& points, Seconds launch, double bandwidth,
                        const std::string& family);

/// Share that a role's product reaches beside the forward one: the median of forecast over
/// measured.
double role_share(const std::vector<ProductPoint>& points, const KernelDevice& device,
                  const ProductCurve& forward);

}  // namespace rehearse::inline kernels
