#include <fmt/format.h>

#include <numeric>

#include "cluster/parts.hpp"

namespace rehearse::inline cluster {
namespace {

// One switch (130 ns in an NVIDIA Quantum HDR switch's datasheet) and 4 m of cable at 5 ns/m.
constexpr Seconds kCableLatency{150e-9};

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostSwitches = 1'000'000;
constexpr int kMostLevels = 8;
constexpr int kMostLinks = 1024;

std::vector<int> read_counts(const Value& value, std::int64_t high) {
  std::vector<int> counts;
  for (const Value& item : value.as_list()) {
    counts.push_back(static_cast<int>(item.as_integer(1, high)));
  }
  if (counts.empty()) value.fail("expected at least one number; got an empty list");
  if (counts.size() > kMostLevels) {
    value.fail(fmt::format("expected at most {} numbers; got {}", kMostLevels, counts.size()));
  }
  return counts;
}

/// Their product, or one above the most that is allowed: no overflow.
std::int64_t product(const std::vector<int>& counts) {
  std::int64_t result = 1;
  for (const int count : counts) result = std::min(result * count, kMostNodes + 1);
  return result;
}

std::string joined(const std::vector<int>& counts) {
  return fmt::format("{}", fmt::join(counts, " x "));
}

void check_nodes(const Value& where, const std::vector<int>& counts, std::size_t nodes) {
  const std::int64_t places = product(counts);
  if (places == static_cast<std::int64_t>(nodes)) return;
  const std::string shown = places > kMostNodes ? "more than 1000000" : std::to_string(places);
  where.fail(fmt::format("{} = {} nodes, but the cluster has {}", joined(counts), shown, nodes),
             fmt::format("choose numbers whose product is {}, or another number of nodes", nodes));
}

void check_levels(const Value& where, const std::vector<int>& counts, std::size_t levels) {
  if (counts.size() == levels) return;
  where.fail(fmt::format("expected {} number{}, one for each level of `down`; got {}", levels,
                         levels == 1 ? "" : "s", counts.size()));
}

/// Switches of each level: those above share the subtrees below (Zahavi 2010, parallel ports
/// generalised fat tree).
void check_switches(const Value& where, const FatTree& tree) {
  std::int64_t total = 0;
  for (std::size_t level = 0; level < tree.down.size(); ++level) {
    std::int64_t switches = 1;
    for (std::size_t i = 0; i < tree.down.size(); ++i) {
      switches = std::min(switches * (i <= level ? tree.up[i] : tree.down[i]), kMostSwitches + 1);
    }
    total += switches;
  }
  if (total > kMostSwitches)
    where.fail(fmt::format("the tree has more than {} switches", kMostSwitches));
}

template <class Fabric>
void read_cables(Map& map, Fabric& fabric) {
  fabric.bandwidth = map.require("bandwidth").as_bytes_per_second();
  fabric.latency = map.seconds_or("latency", kCableLatency);
  if (const auto burst = map.optional("burst")) fabric.burst = burst->as_bytes();
}

FatTree read_fat_tree(const Value& value, std::size_t nodes) {
  Map map = value.as_map();
  FatTree tree;
  const Value down = map.require("down");
  const Value up = map.require("up");
  const Value links = map.require("links");
  tree.down = read_counts(down, kMostNodes);
  tree.up = read_counts(up, kMostLinks);
  tree.links = read_counts(links, kMostLinks);
  read_cables(map, tree);
  map.finish();
  check_levels(up, tree.up, tree.down.size());
  check_levels(links, tree.links, tree.down.size());
  check_nodes(down, tree.down, nodes);
  check_switches(up, tree);
  return tree;
}

Torus read_torus(const Value& value, std::size_t nodes) {
  Map map = value.as_map();
  Torus torus;
  const Value dimensions = map.require("dimensions");
  torus.dimensions = read_counts(dimensions, kMostNodes);
  read_cables(map, torus);
  map.finish();
  check_nodes(dimensions, torus.dimensions, nodes);
  return torus;
}

Dragonfly read_dragonfly(const Value& value, std::size_t nodes) {
  Map map = value.as_map();
  const auto count = [&map](const char* key) {
    return static_cast<int>(map.require(key).as_integer(1, kMostNodes));
  };
  const auto links = [&map](const char* key) {
    return static_cast<int>(map.integer_or(key, 1, 1, kMostLinks));
  };
  Dragonfly fly{.groups = count("groups"),
                .chassis = count("chassis"),
                .routers = count("routers"),
                .nodes_per_router = count("nodes_per_router"),
                .group_links = links("group_links"),
                .chassis_links = links("chassis_links"),
                .router_links = links("router_links"),
                .bandwidth = {},
                .latency = {}};
  read_cables(map, fly);
  map.finish();
  check_nodes(value, {fly.groups, fly.chassis, fly.routers, fly.nodes_per_router}, nodes);
  if (fly.groups > fly.routers) {
    map.at_key("groups").fail(
        fmt::format("{} groups need as many routers in a chassis, which has {}", fly.groups,
                    fly.routers),
        "a group hangs on one router of the first chassis of every other group: raise routers");
  }
  return fly;
}

Rail read_rail(const Value& value) {
  Map map = value.as_map();
  Rail rail;
  rail.nodes = static_cast<int>(map.require("nodes").as_integer(1, kMostNodes));
  rail.uplinks = static_cast<int>(map.require("uplinks").as_integer(1, kMostSwitches));
  read_cables(map, rail);
  map.finish();
  return rail;
}

Sites read_sites(const Value& value, std::size_t nodes) {
  Map map = value.as_map();
  const Value each = map.require("nodes");
  const Sites sites{.nodes = static_cast<int>(each.as_integer(1, kMostNodes)),
                    .bandwidth = map.require("bandwidth").as_bytes_per_second(),
                    .latency = map.require("latency").as_seconds()};
  map.finish();
  if (nodes % static_cast<std::size_t>(sites.nodes) != 0)
    each.fail(fmt::format("{} nodes do not divide into sites of {}", nodes, sites.nodes),
              fmt::format("choose a divisor of {}, or another number of nodes", nodes));
  return sites;
}

struct NodesOf {
  std::optional<std::size_t> operator()(const Star&) const { return std::nullopt; }
  std::optional<std::size_t> operator()(const Rail&) const { return std::nullopt; }
  std::optional<std::size_t> operator()(const Sites&) const { return std::nullopt; }
  std::optional<std::size_t> operator()(const FatTree& tree) const { return places(tree.down); }
  std::optional<std::size_t> operator()(const Torus& torus) const {
    return places(torus.dimensions);
  }
  std::optional<std::size_t> operator()(const Dragonfly& fly) const {
    return places({fly.groups, fly.chassis, fly.routers, fly.nodes_per_router});
  }
  static std::size_t places(const std::vector<int>& counts) {
    return static_cast<std::size_t>(product(counts));
  }
};

}  // namespace

Fabric read_fabric(const Value& value, std::size_t nodes) {
  Map map = value.as_map();
  const std::optional<Value> star = map.optional("star");
  const std::optional<Value> fat_tree = map.optional("fat_tree");
  const std::optional<Value> dragonfly = map.optional("dragonfly");
  const std::optional<Value> torus = map.optional("torus");
  const std::optional<Value> rail = map.optional("rail");
  const std::optional<Value> sites = map.optional("sites");
  map.finish();
  if (map.keys().size() != 1) {
    value.fail(fmt::format("expected one of star, fat_tree, dragonfly, torus, rail, sites; got {}",
                           map.keys().size()),
               "write, for example, `fabric: {star: {}}`");
  }
  if (fat_tree) return read_fat_tree(*fat_tree, nodes);
  if (dragonfly) return read_dragonfly(*dragonfly, nodes);
  if (torus) return read_torus(*torus, nodes);
  if (rail) return read_rail(*rail);
  if (sites) return read_sites(*sites, nodes);
  if (star) star->as_map().finish();
  return Star{};
}

std::optional<std::size_t> fabric_nodes(const Fabric& fabric) {
  return std::visit(NodesOf{}, fabric);
}

std::string fabric_name(const Fabric& fabric) {
  static constexpr const char* kNames[] = {"star",  "fat-tree", "dragonfly",
                                           "torus", "rails",    "sites"};
  return kNames[fabric.index()];
}

}  // namespace rehearse::inline cluster
