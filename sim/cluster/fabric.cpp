#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "cluster/cluster.hpp"

// Counts the links of the route that SimGrid's zones take between two leaves, so that a latency
// that is computed here and one that is simulated agree; tests/cluster/fabric_against_simgrid.cpp
// holds both to each other.

namespace rehearse::inline cluster {
namespace {

int links(const Star&, std::size_t, std::size_t) { return 0; }

/// Up to the lowest switch whose subtree holds both and down again. The node's own cable to its
/// leaf switch counts.
int links(const FatTree& tree, std::size_t a, std::size_t b) {
  std::size_t subtree = 1;
  int level = 0;
  while (a / subtree != b / subtree) {
    check(static_cast<std::size_t>(level) < tree.down.size(), "two nodes under no common switch");
    subtree *= static_cast<std::size_t>(tree.down[static_cast<std::size_t>(level)]);
    ++level;
  }
  return 2 * level;
}

/// Dimension-ordered routing, the shorter way round each ring. The first dimension varies fastest.
int links(const Torus& torus, std::size_t a, std::size_t b) {
  int count = 0;
  for (const int dimension : torus.dimensions) {
    const auto size = static_cast<std::size_t>(dimension);
    const int apart = std::abs(static_cast<int>(a % size) - static_cast<int>(b % size));
    count += std::min(apart, dimension - apart);
    a /= size;
    b /= size;
  }
  return count;
}

/// Between NICs of one rail; path_latency knows those of others.
int links(const Rail& rail, std::size_t a, std::size_t b) {
  return rail.pod_of(NodeId(a)) == rail.pod_of(NodeId(b)) ? 0 : 2;
}

int links(const Sites& sites, std::size_t a, std::size_t b) {
  return sites.site_of(NodeId(a)) == sites.site_of(NodeId(b)) ? 0 : 1;
}

struct Router {
  std::size_t group, chassis, router;
};

Router router_of(const Dragonfly& fly, std::size_t node) {
  const auto routers = static_cast<std::size_t>(fly.routers);
  const auto chassis = static_cast<std::size_t>(fly.chassis);
  const std::size_t router = node / static_cast<std::size_t>(fly.nodes_per_router);
  return {router / routers / chassis, router / routers % chassis, router % routers};
}

/// Links from `from` to `to` inside one group. SimGrid (3.32, DragonflyZone::get_local_route) goes
/// on in the first chassis after it changed the router, wherever it came from; what counts is what
/// it simulates.
int links_in_group(Router from, const Router& to) {
  int count = 0;
  if (from.router != to.router) {
    ++count;
    from.chassis = 0;
  }
  return count + (from.chassis != to.chassis ? 1 : 0);
}

/// Minimal routing in Cray's colours: green between a chassis' routers, black between a group's
/// chassis, blue between groups. Group g hangs on router g of the first chassis of every other
/// group.
int links(const Dragonfly& fly, std::size_t a, std::size_t b) {
  constexpr int kLocal = 2;  // node to router, router to node
  Router from = router_of(fly, a);
  const Router to = router_of(fly, b);
  if (from.group == to.group) return kLocal + links_in_group(from, to);
  const int to_blue = (from.router != to.group ? 1 : 0) + (from.chassis != 0 ? 1 : 0);
  const Router arrival{.group = to.group, .chassis = 0, .router = from.group};
  return kLocal + to_blue + 1 + links_in_group(arrival, to);
}

}  // namespace

int fabric_links_between(const Cluster& cluster, NodeId a, NodeId b) {
  check(a != b, "cables between a node and itself");
  return std::visit([&](const auto& shape) { return links(shape, a.index(), b.index()); },
                    cluster.fabric);
}

}  // namespace rehearse::inline cluster
