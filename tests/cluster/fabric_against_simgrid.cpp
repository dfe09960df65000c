#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cluster/fabric.hpp"
#include "engine/simgrid_zones.hpp"

namespace sg4 = simgrid::s4u;

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fabric_against_simgrid_test)
namespace {

constexpr double kRate = 1e9;
constexpr double kLatency = 1e-6;

/// SimGrid's hosts of a fabric's nodes: each has a zone of its own, as where schedules are played.
std::vector<sg4::Host*> add_hosts(sg4::NetZone* parent, const std::string& name,
                                  const Fabric& fabric) {
  std::vector<sg4::Host*> hosts;
  simgrid_zones::add_fabric(parent, name, fabric, 1.0, kLatency,
                            [&](sg4::NetZone* zone, std::size_t node) {
                              const std::string id = name + "-" + std::to_string(node);
                              sg4::NetZone* star = simgrid_zones::add_star(zone, id);
                              sg4::Host* host = simgrid_zones::add_host(star, id + " host");
                              simgrid_zones::add_ways(star, host, {}, {});
                              hosts.push_back(host);
                              return std::make_pair(star, host);
                            });
  return hosts;
}

FatTree fat_tree(std::vector<int> down, std::vector<int> up, std::vector<int> links) {
  return {.down = std::move(down),
          .up = std::move(up),
          .links = std::move(links),
          .bandwidth = BytesPerSecond(kRate),
          .latency = Seconds(kLatency)};
}

Torus torus(std::vector<int> dimensions) {
  return {.dimensions = std::move(dimensions),
          .bandwidth = BytesPerSecond(kRate),
          .latency = Seconds(kLatency)};
}

Dragonfly dragonfly(int groups, int chassis, int routers, int nodes_per_router) {
  return {.groups = groups,
          .chassis = chassis,
          .routers = routers,
          .nodes_per_router = nodes_per_router,
          .group_links = 2,
          .chassis_links = 3,
          .router_links = 1,
          .bandwidth = BytesPerSecond(kRate),
          .latency = Seconds(kLatency)};
}

std::vector<Fabric> shapes() {
  return {fat_tree({4}, {1}, {1}),
          fat_tree({4, 1}, {1, 1}, {1, 1}),
          fat_tree({1, 4}, {1, 3}, {1, 1}),
          fat_tree({2, 3}, {1, 2}, {1, 1}),
          fat_tree({4, 4}, {1, 2}, {1, 2}),
          fat_tree({2, 2, 3}, {1, 2, 2}, {1, 1, 2}),
          fat_tree({3, 2}, {2, 2}, {1, 1}),
          torus({5}),
          torus({2, 2}),
          torus({3, 4, 5}),
          torus({1, 6}),
          torus({4, 1, 3}),
          dragonfly(1, 1, 2, 2),
          dragonfly(2, 1, 2, 3),
          dragonfly(3, 4, 3, 2),
          dragonfly(2, 3, 5, 1),
          dragonfly(4, 2, 4, 2)};
}

/// SimGrid's cable of each of ours, and ours of each of SimGrid's.
struct SameCables {
  bool pair(const Cable& ours, sg4::Link* theirs) {
    const bool alike = std::abs(theirs->get_bandwidth() / ours.rate.value() - 1) < 1e-12;
    return alike && by_id.try_emplace(ours.id, theirs).first->second == theirs &&
           by_link.try_emplace(theirs, ours.id).first->second == ours.id;
  }
  std::map<std::array<std::uint32_t, 4>, sg4::Link*> by_id;
  std::map<sg4::Link*, std::array<std::uint32_t, 4>> by_link;
};

/// Number of ordered pairs of hosts between which SimGrid's route passes other cables or has
/// another latency.
std::size_t disagreements(const Cluster& cluster, const std::vector<sg4::Host*>& hosts) {
  std::size_t count = 0;
  SameCables same;
  for (std::size_t a = 0; a < hosts.size(); ++a) {
    for (std::size_t b = 0; b < hosts.size(); ++b) {
      if (a == b) continue;
      std::vector<sg4::Link*> route;
      double latency = 0;
      hosts[a]->route_to(hosts[b], route, &latency);
      const int links = fabric_links_between(cluster, NodeId(a), NodeId(b));
      const bool same_latency = std::abs(latency - links * kLatency) < 1e-15;
      const auto cables =
          cables_between(cluster, {PortKind::nic, NodeId(a), 0}, {PortKind::nic, NodeId(b), 0});
      bool agrees = same_latency && cables.size() == route.size();
      for (std::size_t i = 0; agrees && i < cables.size(); ++i)
        agrees = same.pair(cables[i], route[i]);
      if (!agrees) ++count;
    }
  }
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(fabrics_have_the_cables_and_latencies_of_simgrids_zones) {
  // Every zone in one engine, for SimGrid allows one engine per process.
  int argc = 1;
  char name[] = "test";
  char* argv[] = {name, nullptr};
  sg4::Engine engine(&argc, argv);
  sg4::NetZone* world = simgrid_zones::world(engine);
  std::size_t index = 0;
  for (const Fabric& fabric : shapes()) {
    const auto hosts = add_hosts(world, "fabric" + std::to_string(index), fabric);
    Cluster cluster;
    cluster.groups.push_back({.name = "all", .nodes = static_cast<int>(hosts.size()), .node = {}});
    cluster.fabric = fabric;
    BOOST_TEST_CONTEXT("shape " << index) {
      BOOST_TEST(hosts.size() >= 4U);
      BOOST_TEST(disagreements(cluster, hosts) == 0U);
    }
    ++index;
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
