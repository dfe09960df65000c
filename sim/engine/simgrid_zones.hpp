#pragma once

#include <cstddef>
#include <functional>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster.hpp"

/// SimGrid 4.0 renamed what makes zones: these are the same for 3.32 and for 4.
namespace rehearse::simgrid_zones {

namespace s4u = simgrid::s4u;

/// The zone that all zones are in. Once per engine: SimGrid 4 makes it by itself, 3.32 does not.
s4u::NetZone* world(const s4u::Engine& engine);

s4u::NetZone* add_star(s4u::NetZone* parent, const std::string& name);
s4u::Host* add_host(s4u::NetZone* zone, const std::string& name);
/// Adds a link of `rate` units per second, without a latency.
s4u::Link* add_link(s4u::NetZone* zone, const std::string& name, double rate);
/// Adds the links that a star's host sends over, and those that it receives over.
void add_ways(s4u::NetZone* star, const s4u::Host* host, const std::vector<s4u::LinkInRoute>& out,
              const std::vector<s4u::LinkInRoute>& in);

/// The same of a zone in a star, which is entered and left by one of its hosts, and then sealed.
void add_ways(s4u::NetZone* star, s4u::NetZone* zone, s4u::Host* gateway,
              const std::vector<s4u::LinkInRoute>& out, const std::vector<s4u::LinkInRoute>& in);

/// Makes a fabric's node: a zone, unsealed, and the host by which it is entered and left.
using NodeMaker =
    std::function<std::pair<s4u::NetZone*, s4u::Host*>(s4u::NetZone* fabric, std::size_t node)>;

/// A fabric's zone, sealed: its bandwidths times `units_per_byte`, and a latency in seconds for
/// each of its cables. False for a star and for rails, whose nodes need no zone.
bool add_fabric(s4u::NetZone* parent, const std::string& name, const Fabric& fabric,
                double units_per_byte, double latency, const NodeMaker& make_node);

}  // namespace rehearse::simgrid_zones
