#include "kernels/kernel_curves.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline kernels {

std::vector<std::string> size_names(const std::string& kernels) {
  if (kernels.starts_with("gemm ") || kernels.starts_with("convolution"))
    return {"rows", "columns", "inner"};
  if (kernels.starts_with("attention ")) return {"tokens", "heads"};
  return {"bytes"};
}

double distance(const MeasuredKernels& measured, const std::vector<double>& sizes) {
  check(sizes.size() == measured.sizes.size(), "as many sizes as were measured");
  double farthest = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Ends<double>& span = measured.sizes[i];
    farthest = std::max({farthest, span.low / sizes[i], sizes[i] / span.high});
  }
  return farthest;
}

const MeasuredKernels* KernelCurves::find_measured(const std::string& kernels) const {
  const auto found = std::ranges::find(measured, kernels, &MeasuredKernels::kernels);
  return found == measured.end() ? nullptr : &*found;
}

}  // namespace rehearse::inline kernels
