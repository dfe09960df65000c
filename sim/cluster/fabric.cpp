#include "cluster/fabric.hpp"

#include <cmath>
#include <cstdlib>

#include "base/error.hpp"

// Passes the cables that SimGrid's zones pass between two leaves, so that what is computed here and
// what is simulated agree; tests/cluster/fabric_against_simgrid.cpp holds both to each other.

namespace rehearse::inline cluster {
namespace {

/// Kinds of cables in fabrics whose cables are not all alike.
enum Kind : std::uint32_t { leave, enter, green, black, blue };

std::uint32_t number(std::size_t one) { return static_cast<std::uint32_t>(one); }
std::size_t at(const std::vector<int>& numbers, std::size_t i) {
  return static_cast<std::size_t>(numbers[i]);
}

std::vector<Cable> route(const Star&, const Port&, const Port&) { return {}; }

/// Up to the lowest switch whose subtree holds both and down again. The node's own cable to its
/// leaf switch counts. Of a switch's parents and parallel cables the target's number takes one
/// (D-mod-k). Down again there is one parent's child, and the source's number takes one of its
/// parallel cables.
std::vector<Cable> route(const FatTree& tree, const Port& source, const Port& target) {
  const std::size_t a = source.node.index(), b = target.node.index();
  std::vector<Cable> up, down;
  std::size_t subtree = 1, chosen = 0, parents = 1;
  for (std::size_t level = 0; a / subtree != b / subtree; ++level) {
    check(level < tree.down.size(), "two nodes under no common switch");
    const std::size_t more = at(tree.up, level), links = at(tree.links, level);
    const std::size_t taken = b / parents % (more * links), parent = taken % more;
    up.push_back({{leave + 2 * number(level), number(a / subtree), number(chosen), number(taken)},
                  tree.bandwidth});
    down.push_back({{enter + 2 * number(level), number(b / subtree), number(chosen),
                     number(parent + more * (a % links))},
                    tree.bandwidth});
    chosen += parents * parent;
    parents *= more;
    subtree *= at(tree.down, level);
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

/// Dimension-ordered routing, the shorter way round each ring. The first dimension varies fastest.
std::vector<Cable> route(const Torus& torus, const Port& source, const Port& target) {
  std::vector<Cable> cables;
  std::size_t here = source.node.index(), stride = 1;
  for (std::size_t d = 0; d < torus.dimensions.size(); ++d) {
    const std::size_t size = at(torus.dimensions, d);
    const std::size_t from = here / stride % size, to = target.node.index() / stride % size;
    const bool forward =
        (to > from && to <= from + size / 2) || (from > size / 2 && (from + size / 2) % size >= to);
    for (std::size_t place = from; place != to;) {
      const std::size_t next = (place + (forward ? 1 : size - 1)) % size;
      cables.push_back({{forward ? leave : enter, number(d), number(here), 0}, torus.bandwidth});
      here += stride * next;
      here -= stride * place;
      place = next;
    }
    stride *= size;
  }
  return cables;
}

std::vector<Cable> route(const Rail& rail, const Port& source, const Port& target) {
  const std::size_t a = rail.pod_of(source.node), b = rail.pod_of(target.node);
  if (a == b && source.index == target.index) return {};
  const BytesPerSecond rate = rail.bandwidth * rail.uplinks;
  return {{{leave, number(a), static_cast<std::uint32_t>(source.index), 0}, rate},
          {{enter, number(b), static_cast<std::uint32_t>(target.index), 0}, rate}};
}

std::vector<Cable> route(const Sites& sites, const Port& source, const Port& target) {
  const std::size_t a = sites.site_of(source.node), b = sites.site_of(target.node);
  if (a == b) return {};
  return {{{leave, number(a), 0, 0}, sites.bandwidth}, {{enter, number(b), 0, 0}, sites.bandwidth}};
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

/// Walks through a dragonfly from one router to the next.
class Walk {
 public:
  explicit Walk(const Dragonfly& fly) : fly_(fly) {}

  /// In Cray's colours: green between a chassis' routers, black between a group's chassis, blue
  /// between groups.
  void pass(Kind kind, std::size_t where, std::size_t from, std::size_t to) {
    const int links = kind == green   ? fly_.router_links
                      : kind == black ? fly_.chassis_links
                      : kind == blue  ? fly_.group_links
                                      : 1;
    cables.push_back({{kind, number(where), number(from), number(to)}, fly_.bandwidth * links});
  }

  /// Inside one group. SimGrid (3.32, DragonflyZone::get_local_route) goes on in the first chassis
  /// after it changed the router, wherever it came from; what counts is what it simulates.
  void go(Router from, const Router& to) {
    if (from.router != to.router) {
      pass(green, from.group * chassis() + from.chassis, from.router, to.router);
      from.chassis = 0;
    }
    if (from.chassis != to.chassis)
      pass(black, from.group * routers() + to.router, from.chassis, to.chassis);
  }

  std::size_t chassis() const { return static_cast<std::size_t>(fly_.chassis); }
  std::size_t routers() const { return static_cast<std::size_t>(fly_.routers); }

  std::vector<Cable> cables;

 private:
  const Dragonfly& fly_;
};

/// Minimal routing. Group g hangs on router g of the first chassis of every other group.
std::vector<Cable> route(const Dragonfly& fly, const Port& source, const Port& target) {
  Walk walk(fly);
  Router from = router_of(fly, source.node.index());
  const Router to = router_of(fly, target.node.index());
  walk.pass(leave, source.node.index(), 0, 0);
  if (from.group != to.group) {
    if (from.router != to.group)
      walk.pass(green, from.group * walk.chassis() + from.chassis, from.router, to.group);
    if (from.chassis != 0)
      walk.pass(black, from.group * walk.routers() + to.group, from.chassis, 0);
    walk.pass(blue, 0, from.group, to.group);
    from = {.group = to.group, .chassis = 0, .router = from.group};
  }
  walk.go(from, to);
  walk.pass(enter, target.node.index(), 0, 0);
  return std::move(walk.cables);
}

}  // namespace

std::vector<Cable> cables_between(const Cluster& cluster, const Port& source, const Port& target) {
  check(source.node != target.node, "cables between a node and itself");
  return std::visit([&](const auto& shape) { return route(shape, source, target); },
                    cluster.fabric);
}

/// A latency of sites is of both their links together, and change of rails is path_latency's.
int fabric_links_between(const Cluster& cluster, NodeId a, NodeId b) {
  const auto cables = static_cast<int>(
      cables_between(cluster, {PortKind::nic, a, 0}, {PortKind::nic, b, 0}).size());
  return std::holds_alternative<Sites>(cluster.fabric) ? std::min(cables, 1) : cables;
}

}  // namespace rehearse::inline cluster
