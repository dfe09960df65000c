#include "cost/cost_parts.hpp"

#include <algorithm>

namespace rehearse::inline cost {

std::string to_string(CostFamily family) {
  static const std::array<std::string, kCostFamilies> kNames = {"matrix products",
                                                                "products in 8 or 4 bits",
                                                                "attention",
                                                                "convolutions",
                                                                "depthwise convolutions",
                                                                "norms and losses",
                                                                "pointwise",
                                                                "embeddings",
                                                                "pooling",
                                                                "copies",
                                                                "whole units",
                                                                "optimizer"};
  return kNames[static_cast<std::size_t>(family)];
}

std::string to_string(CostGround ground) {
  static const std::array<std::string, kCostGrounds> kNames = {
      "given", "measured", "transferred", "fitted", "carried over", "datasheet"};
  return kNames[static_cast<std::size_t>(ground)];
}

void UnitParts::add(CostFamily family, Seconds time, bool forward, double distance) {
  if (time == Seconds(0)) return;
  std::optional<CostPart>& part = parts_[static_cast<std::size_t>(family)];
  if (!part) part = CostPart{.unit = unit_, .family = family, .farthest = distance};
  (forward ? part->forward : part->backward) += time;
  if (distance == 1) part->within += time;
  part->farthest = std::max(part->farthest, distance);
}

void UnitParts::append_to(std::vector<CostPart>& parts) const {
  for (const std::optional<CostPart>& part : parts_)
    if (part) parts.push_back(*part);
}

}  // namespace rehearse::inline cost
