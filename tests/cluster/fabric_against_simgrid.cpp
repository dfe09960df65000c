#include <boost/test/unit_test.hpp>
#include <cmath>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"

namespace sg4 = simgrid::s4u;

namespace rehearse {
namespace {

constexpr double kRate = 1e9;
constexpr double kLatency = 1e-6;
constexpr auto kPolicy = sg4::Link::SharingPolicy::SPLITDUPLEX;

std::vector<unsigned> as_unsigned(const std::vector<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

/// SimGrid's zone for a fabric, under `root`.
class ZoneMaker {
 public:
  ZoneMaker(const sg4::NetZone* root, std::string name)
      : root_(root),
        name_(std::move(name)),
        callbacks_([this](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
          sg4::Host* host = zone->create_host(name_ + "-" + std::to_string(id), 1e9);
          hosts_.push_back(host);
          return std::pair<simgrid::kernel::routing::NetPoint*,
                           simgrid::kernel::routing::NetPoint*>(host->get_netpoint(), nullptr);
        }) {}

  std::vector<sg4::Host*> make(const Fabric& fabric) {
    std::visit([this](const auto& shape) { zone(shape)->seal(); }, fabric);
    return hosts_;
  }

 private:
  sg4::NetZone* zone(const Star&) { return sg4::create_star_zone(name_); }
  sg4::NetZone* zone(const FatTree& tree) {
    const sg4::FatTreeParams shape(static_cast<unsigned>(tree.down.size()), as_unsigned(tree.down),
                                   as_unsigned(tree.up), as_unsigned(tree.links));
    return sg4::create_fatTree_zone(name_, root_, shape, callbacks_, kRate, kLatency, kPolicy);
  }
  sg4::NetZone* zone(const Torus& torus) {
    const std::vector<unsigned long> shape(torus.dimensions.begin(), torus.dimensions.end());
    return sg4::create_torus_zone(name_, root_, shape, callbacks_, kRate, kLatency, kPolicy);
  }
  sg4::NetZone* zone(const Dragonfly& fly) {
    const auto pair = [](int a, int b) { return std::pair<unsigned, unsigned>(a, b); };
    const sg4::DragonflyParams shape(
        pair(fly.groups, fly.group_links), pair(fly.chassis, fly.chassis_links),
        pair(fly.routers, fly.router_links), static_cast<unsigned>(fly.nodes_per_router));
    return sg4::create_dragonfly_zone(name_, root_, shape, callbacks_, kRate, kLatency, kPolicy);
  }

  const sg4::NetZone* root_;
  std::string name_;
  std::vector<sg4::Host*> hosts_;
  sg4::ClusterCallbacks callbacks_;
};

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

/// Number of ordered pairs of hosts between which SimGrid's route has another length or latency.
std::size_t disagreements(const Cluster& cluster, const std::vector<sg4::Host*>& hosts) {
  std::size_t count = 0;
  for (std::size_t a = 0; a < hosts.size(); ++a) {
    for (std::size_t b = 0; b < hosts.size(); ++b) {
      if (a == b) continue;
      std::vector<sg4::Link*> route;
      double latency = 0;
      hosts[a]->route_to(hosts[b], route, &latency);
      const int links = fabric_links_between(cluster, NodeId(a), NodeId(b));
      const bool same_latency = std::abs(latency - links * kLatency) < 1e-15;
      if (static_cast<int>(route.size()) != links || !same_latency) ++count;
    }
  }
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(fabrics_have_the_route_lengths_and_latencies_of_simgrids_zones) {
  // Every zone in one engine, for SimGrid allows one engine per process.
  int argc = 1;
  char name[] = "test";
  char* argv[] = {name, nullptr};
  sg4::Engine engine(&argc, argv);
  const sg4::NetZone* root = sg4::create_full_zone("root");
  std::size_t index = 0;
  for (const Fabric& fabric : shapes()) {
    ZoneMaker maker(root, "fabric" + std::to_string(index));
    const std::vector<sg4::Host*> hosts = maker.make(fabric);
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

}  // namespace rehearse
