#include "cost/kernel_costs.hpp"

#include <algorithm>

#include "cost/roofline.hpp"
#include "model/captured/work.hpp"

namespace rehearse::inline cost {
namespace {

Bytes moved(const captured::Kernel& kernel, double batch) {
  Bytes all;
  for (const auto* side : {&kernel.reads, &kernel.writes})
    for (const captured::Tensor& one : *side) all += one.bytes(batch);
  return kernel.calls * all;
}

KernelCost cost_of(const captured::Kernel& kernel, double batch, const Roofline& roofline,
                   const std::vector<FamilyGround>& grounds) {
  Operator op;
  op.kernel = std::make_shared<const captured::Kernel>(kernel);
  const Direction direction = kernel.backward ? Direction::backward : Direction::forward;
  const captured::Work work = captured::work_of(kernel, batch);
  KernelCost cost{.time = roofline.time(op, batch, direction),
                  .bytes = moved(kernel, batch),
                  .flops = kernel.calls * work.flops,
                  .family = roofline.basis(op, batch, direction).family,
                  .known = work.known};
  const auto ground = std::ranges::find(grounds, cost.family, &FamilyGround::family);
  if (ground == grounds.end() || !work.known) return cost;
  cost.ground = ground->ground;
  cost.from = ground->from;
  return cost;
}

}  // namespace

std::vector<KernelCost> kernel_costs(const std::vector<captured::Kernel>& kernels, double batch,
                                     const Gpu& gpu, Precision precision,
                                     const AnalyticEfficiency& efficiency,
                                     const std::vector<FamilyGround>& grounds) {
  const Roofline roofline(gpu, precision, efficiency);
  std::vector<KernelCost> costs;
  costs.reserve(kernels.size());
  for (const captured::Kernel& one : kernels)
    costs.push_back(cost_of(one, batch, roofline, grounds));
  return costs;
}

}  // namespace rehearse::inline cost
