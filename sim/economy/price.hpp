#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"

namespace rehearse::inline economy {

/// Days after which a price says how old it is.
inline constexpr int kOldPrice = 180;

/// USD per hour of one node in this market; on demand where it has no price there, which the
/// readers of `train.market` say. Nothing: not known.
std::optional<double> usd_per_hour(const Node& node, Market market);

/// USD per hour of all nodes; nothing unless each has a price.
std::optional<double> usd_per_hour(const Cluster& cluster, Market market);

/// Which price of a node that is, and of which date: "55.04 USD a node and hour, on demand,
/// p5.48xlarge in us-east-1, 2026-07-20". One older than kOldPrice days says its age against
/// today(). Empty: none.
std::string price_words(const Node& node, Market market);

/// The same of each group of nodes that has a price, without repetitions.
std::vector<std::string> price_words(const Cluster& cluster, Market market);

}  // namespace rehearse::inline economy
