#include "economy/price.hpp"

namespace rehearse::inline economy {

std::optional<double> usd_per_hour(const Node& node, Market market) {
  return market == Market::spot && node.spot_usd_per_hour ? node.spot_usd_per_hour
                                                          : node.usd_per_hour;
}

std::optional<double> usd_per_hour(const Cluster& cluster, Market market) {
  double sum = 0;
  for (const NodeGroup& group : cluster.groups) {
    const std::optional<double> price = usd_per_hour(group.node, market);
    if (!price) return std::nullopt;
    sum += *price * group.nodes;
  }
  return sum;
}

}  // namespace rehearse::inline economy
