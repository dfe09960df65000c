#pragma once

#include <string>

#include "measure/kernel_points.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline calibrate {

/// Device that kernels were measured on.
struct KernelsOf {
  std::string device;  ///< as people know it
  std::string date;
  bool cpu = false;
  double multiprocessors = 1;  ///< of a CPU: threads
  DeviceRates rates;
};

/// The curves of platforms/kernels, fitted to what was measured; convolutions, which were not, keep
/// the shipped numbers.
KernelCurves fitted_kernels(const KernelPoints& points, const KernelsOf& of);

}  // namespace rehearse::inline calibrate
