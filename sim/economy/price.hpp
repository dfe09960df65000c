#pragma once

#include <optional>

#include "cluster/cluster.hpp"
#include "economy/options.hpp"

namespace rehearse::inline economy {

/// USD per hour of one node in this market: its spot price, where it has one, on spot. Nothing: not
/// known.
std::optional<double> usd_per_hour(const Node& node, Market market);

/// USD per hour of all nodes; nothing unless each has a price.
std::optional<double> usd_per_hour(const Cluster& cluster, Market market);

}  // namespace rehearse::inline economy
