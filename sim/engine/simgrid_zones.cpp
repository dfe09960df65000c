#include "engine/simgrid_zones.hpp"

#include <variant>

// Only after SimGrid's others, whose macros it needs.
#include <simgrid/version.h>

namespace rehearse::simgrid_zones {

namespace {

constexpr auto kDuplex = s4u::Link::SharingPolicy::SPLITDUPLEX;

std::vector<unsigned int> unsigned_of(const std::vector<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

std::pair<unsigned int, unsigned int> unsigned_of(int count, int links) {
  return {static_cast<unsigned int>(count), static_cast<unsigned int>(links)};
}

/// Without dimensions of one node, which no cable leaves.
std::vector<unsigned long> shape_of(const Torus& torus) {
  std::vector<unsigned long> shape;
  for (const int nodes : torus.dimensions)
    if (nodes > 1) shape.push_back(static_cast<unsigned long>(nodes));
  if (shape.empty()) shape.push_back(1);
  return shape;
}

/// The zone of each fabric, all of whose cables are alike.
struct ShapeMaker {
  s4u::NetZone* parent;
  const std::string& name;
  double units_per_byte, latency;
  const NodeMaker& make_node;

#if SIMGRID_VERSION >= 40000
  s4u::NetZone* with_nodes(s4u::NetZone* zone) const {
    return zone->set_netzone_cb([make = make_node](s4u::NetZone* fabric,
                                                   const std::vector<unsigned long>&,
                                                   unsigned long node) {
      const auto [made, gateway] = make(fabric, node);
      made->set_gateway(gateway);
      return made->seal();
    });
  }
#else
  s4u::ClusterCallbacks nodes() const {
    return s4u::ClusterCallbacks([make = make_node](s4u::NetZone* fabric,
                                                    const std::vector<unsigned long>&,
                                                    unsigned long node) {
      const auto [made, gateway] = make(fabric, node);
      made->seal();
      return std::make_pair(made->get_netpoint(), gateway->get_netpoint());
    });
  }
#endif

  double rate(BytesPerSecond bandwidth) const { return bandwidth.value() * units_per_byte; }

  s4u::NetZone* operator()(const Star&) const { return nullptr; }
  s4u::NetZone* operator()(const Rail&) const { return nullptr; }
  s4u::NetZone* operator()(const Sites&) const { return nullptr; }

  s4u::NetZone* operator()(const FatTree& tree) const {
    const auto levels = static_cast<unsigned int>(tree.down.size());
    const auto down = unsigned_of(tree.down), up = unsigned_of(tree.up),
               links = unsigned_of(tree.links);
#if SIMGRID_VERSION >= 40000
    return with_nodes(parent->add_netzone_fatTree(name, levels, down, up, links,
                                                  rate(tree.bandwidth), latency, kDuplex));
#else
    return s4u::create_fatTree_zone(name, parent, s4u::FatTreeParams(levels, down, up, links),
                                    nodes(), rate(tree.bandwidth), latency, kDuplex);
#endif
  }

  s4u::NetZone* operator()(const Torus& torus) const {
    const std::vector<unsigned long> shape = shape_of(torus);
#if SIMGRID_VERSION >= 40000
    return with_nodes(
        parent->add_netzone_torus(name, shape, rate(torus.bandwidth), latency, kDuplex));
#else
    return s4u::create_torus_zone(name, parent, shape, nodes(), rate(torus.bandwidth), latency,
                                  kDuplex);
#endif
  }

  s4u::NetZone* operator()(const Dragonfly& fly) const {
    const auto groups = unsigned_of(fly.groups, fly.group_links),
               chassis = unsigned_of(fly.chassis, fly.chassis_links),
               routers = unsigned_of(fly.routers, fly.router_links);
    const auto each = static_cast<unsigned int>(fly.nodes_per_router);
#if SIMGRID_VERSION >= 40000
    return with_nodes(parent->add_netzone_dragonfly(name, groups, chassis, routers, each,
                                                    rate(fly.bandwidth), latency, kDuplex));
#else
    return s4u::create_dragonfly_zone(name, parent,
                                      s4u::DragonflyParams(groups, chassis, routers, each), nodes(),
                                      rate(fly.bandwidth), latency, kDuplex);
#endif
  }
};

}  // namespace

s4u::NetZone* world([[maybe_unused]] const s4u::Engine& engine) {
#if SIMGRID_VERSION >= 40000
  return engine.get_netzone_root();
#else
  return s4u::create_full_zone("world");
#endif
}

s4u::NetZone* add_star(s4u::NetZone* parent, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return parent->add_netzone_star(name);
#else
  return s4u::create_star_zone(name)->set_parent(parent);
#endif
}

s4u::Host* add_host(s4u::NetZone* zone, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return zone->add_host(name, 1.0);
#else
  return zone->create_host(name, 1.0);
#endif
}

s4u::Link* add_link(s4u::NetZone* zone, const std::string& name, double rate) {
#if SIMGRID_VERSION >= 40000
  return zone->add_link(name, rate)->set_latency(0.0);
#else
  return zone->create_link(name, rate)->set_latency(0.0);
#endif
}

void add_ways(s4u::NetZone* star, const s4u::Host* host, const std::vector<s4u::LinkInRoute>& out,
              const std::vector<s4u::LinkInRoute>& in) {
#if SIMGRID_VERSION >= 40000
  const s4u::Host* all = nullptr;
  star->add_route(host, all, out, false);
  star->add_route(all, host, in, false);
#else
  star->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, out, false);
  star->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, in, false);
#endif
}

void add_ways(s4u::NetZone* star, s4u::NetZone* zone, s4u::Host* gateway,
              const std::vector<s4u::LinkInRoute>& out, const std::vector<s4u::LinkInRoute>& in) {
#if SIMGRID_VERSION >= 40000
  zone->set_gateway(gateway->get_netpoint());
  zone->seal();
  const s4u::NetZone* all = nullptr;
  star->add_route(zone, all, out, false);
  star->add_route(all, zone, in, false);
#else
  zone->seal();
  const auto here = zone->get_netpoint(), by = gateway->get_netpoint();
  star->add_route(here, nullptr, by, nullptr, out, false);
  star->add_route(nullptr, here, nullptr, by, in, false);
#endif
}

bool add_fabric(s4u::NetZone* parent, const std::string& name, const Fabric& fabric,
                double units_per_byte, double latency, const NodeMaker& make_node) {
  s4u::NetZone* zone =
      std::visit(ShapeMaker{parent, name, units_per_byte, latency, make_node}, fabric);
  if (zone) zone->seal();
  return zone != nullptr;
}

}  // namespace rehearse::simgrid_zones
