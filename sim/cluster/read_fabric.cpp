#include <fmt/format.h>

#include <numeric>

#include "cluster/cluster_keys.hpp"
#include "cluster/parts.hpp"
#include "config/fields.hpp"

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

/// Lists the keys of a fabric's cables behind its `own` ones.
template <class Fabric>
Fields<Fabric> with_cables(Fields<Fabric> own) {
  own.push_back(required("bandwidth", &Fabric::bandwidth, "Rate of a cable per direction."));
  own.push_back({{{"latency", type::time(), format(kCableLatency).c_str(),
                   "Latency of a cable and its switch."}},
                 [](Map& map, Fabric& fabric) {
                   fabric.latency = map.seconds_or("latency", kCableLatency);
                 }});
  own.push_back(field("burst", &Fabric::burst, "Bytes that an idle cable lets pass at once.")
                    .otherwise("(nic_burst)"));
  return own;
}

Form<std::vector<int>> counts(std::int64_t high) {
  return {type::list_of(type::integer(1)),
          [high](const Value& value) { return read_counts(value, high); }};
}

Fields<FatTree> fat_tree_fields() {
  using F = FatTree;
  return {required("down", &F::down, counts(kMostNodes), "Children of a switch, by level."),
          required("up", &F::up, counts(kMostLinks), "Parents, by level."),
          required("links", &F::links, counts(kMostLinks), "Cables to each parent.")};
}

FatTree read_fat_tree(const Value& value, std::size_t nodes) {
  return read_fields(value, with_cables(fat_tree_fields()), [nodes](Map& map, FatTree& tree) {
    check_levels(map.require("up"), tree.up, tree.down.size());
    check_levels(map.require("links"), tree.links, tree.down.size());
    check_nodes(map.require("down"), tree.down, nodes);
    check_switches(map.require("up"), tree);
  });
}

Fields<Torus> torus_fields() {
  return {required("dimensions", &Torus::dimensions, counts(kMostNodes),
                   "Nodes along each dimension.")};
}

Torus read_torus(const Value& value, std::size_t nodes) {
  return read_fields(value, with_cables(torus_fields()), [nodes](Map& map, Torus& torus) {
    check_nodes(map.require("dimensions"), torus.dimensions, nodes);
  });
}

Fields<Dragonfly> dragonfly_fields() {
  using D = Dragonfly;
  static const Form<std::int64_t> kCount = form::integer(1, kMostNodes);
  static const Form<std::int64_t> kLinks = form::integer(1, kMostLinks);
  return {required("groups", &D::groups, kCount, "Groups."),
          required("chassis", &D::chassis, kCount, "Chassis of a group."),
          required("routers", &D::routers, kCount, "Routers of a chassis."),
          required("nodes_per_router", &D::nodes_per_router, kCount, "Nodes at a router."),
          field("group_links", &D::group_links, kLinks, "Cables between two groups."),
          field("chassis_links", &D::chassis_links, kLinks, "Cables between two chassis."),
          field("router_links", &D::router_links, kLinks, "Cables between two routers.")};
}

Dragonfly read_dragonfly(const Value& value, std::size_t nodes) {
  return read_fields(value, with_cables(dragonfly_fields()), [nodes](Map& map, Dragonfly& fly) {
    check_nodes(map.where(), {fly.groups, fly.chassis, fly.routers, fly.nodes_per_router}, nodes);
    if (fly.groups > fly.routers)
      map.at_key("groups").fail(
          fmt::format("{} groups need as many routers in a chassis, which has {}", fly.groups,
                      fly.routers),
          "a group hangs on one router of the first chassis of every other group: raise "
          "routers");
  });
}

Fields<Rail> rail_fields() {
  return {required("nodes", &Rail::nodes, form::integer(1, kMostNodes),
                   "Nodes that share their switches."),
          required("uplinks", &Rail::uplinks, form::integer(1, kMostSwitches),
                   "Cables of a switch to spines.")};
}

Fields<Sites> sites_fields() {
  return {required("nodes", &Sites::nodes, form::integer(1, kMostNodes), "Nodes of a site."),
          required("bandwidth", &Sites::bandwidth, "Of a site's link, each way."),
          required("latency", &Sites::latency, "One way between two sites.")};
}

Sites read_sites(const Value& value, std::size_t nodes) {
  return read_fields(value, sites_fields(), [nodes](Map& map, Sites& sites) {
    if (nodes % static_cast<std::size_t>(sites.nodes) != 0)
      map.require("nodes").fail(
          fmt::format("{} nodes do not divide into sites of {}", nodes, sites.nodes),
          fmt::format("choose a divisor of {}, or another number of nodes", nodes));
  });
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

std::vector<Key> fabric_keys() {
  std::vector<Key> keys = {{"star", type::map(), "-", "One switch that blocks nobody."}};
  const auto add = [&](const char* name, const char* meaning, const auto& fields) {
    std::ranges::move(field_lines(name, type::map(), "-", meaning, "", keys_of(fields, "."), true),
                      std::back_inserter(keys));
  };
  add("fat_tree", "Fat tree.", fat_tree_fields());
  add("torus", "Torus.", torus_fields());
  add("dragonfly", "Dragonfly as in Cray's Cascade.", dragonfly_fields());
  add("rail", "A switch for the like NICs of some nodes, and spines above.", rail_fields());
  add("sites", "A non-blocking switch for some nodes, and one link to the others.", sites_fields());
  std::ranges::move(keys_of(with_cables(Fields<Rail>()), "NAME."), std::back_inserter(keys));
  return keys;
}

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
  if (rail) return read_fields(*rail, with_cables(rail_fields()));
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
