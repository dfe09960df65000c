#pragma once

#include <string>
#include <vector>

#include "cost/cost.hpp"
#include "model/captured/captured.hpp"

namespace rehearse::inline cost {

/// Time of one kernel's calls on a GPU, and what that rests on.
struct KernelCost {
  Seconds time{};
  Bytes bytes{};     ///< that it reads and writes, each operand once
  double flops = 0;  ///< of products, a multiply-add counting 2
  CostFamily family = CostFamily::pointwise;
  CostGround ground = CostGround::analytic;
  std::string from{};  ///< "gemm tensor on A100-SXM-80"
  /// False where neither a curve nor a share is of such a kernel: its bytes bound it.
  bool known = true;
};

/// As captured kernels are timed (Roofline); `grounds`: those of the step's costs
/// (StepCosts::grounds), by family.
std::vector<KernelCost> kernel_costs(const std::vector<captured::Kernel>& kernels, double batch,
                                     const Gpu& gpu, Precision precision,
                                     const AnalyticEfficiency& efficiency,
                                     const std::vector<FamilyGround>& grounds);

}  // namespace rehearse::inline cost
