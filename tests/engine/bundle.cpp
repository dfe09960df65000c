// Flows that one timer stands for: when they end, what they have left before, and who makes room.
#include "engine/bundle.hpp"

#include <array>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(bundle_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
constexpr double kSize = 24e6;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Between NICs of one-GPU nodes, by node.
struct Flows {
  FlowPlan plan;
  Pairs pairs;
  std::vector<Port> ports;
};

Flows flows_of(const Pairs& pairs, const std::vector<double>& shares, std::size_t nodes) {
  Flows flows{.plan = {}, .pairs = pairs, .ports = {}};
  for (std::size_t node = 0; node < nodes; ++node)
    flows.ports.push_back({PortKind::nic, NodeId(node), 0});
  for (std::size_t i = 0; i < pairs.size(); ++i)
    flows.plan.flows.push_back({.source = flows.ports[pairs[i].first],
                                .target = flows.ports[pairs[i].second],
                                .share = shares[i],
                                .latency = {}});
  return flows;
}

std::optional<Bundle> bundle(const Flows& flows, const Cluster& cluster) {
  return bundle_of(flows.plan, flows.pairs, flows.ports, cluster);
}

// Three to everyone else: each port carries three thirds.
BOOST_AUTO_TEST_CASE(all_to_all_is_over_at_once) {
  Pairs pairs;
  for (std::uint32_t from = 0; from < 4; ++from)
    for (std::uint32_t to = 0; to < 4; ++to)
      if (from != to) pairs.emplace_back(from, to);
  const auto made = bundle(flows_of(pairs, std::vector<double>(12, 0.25), 4), star_cluster(4));
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->stages.size() == 1U);
  BOOST_CHECK_CLOSE(made->end(), 0.75 / kNic, kPercent);
  BOOST_CHECK_CLOSE(made->left(5, made->end() / 3), 0.25 * 2 / 3, kPercent);
  BOOST_TEST(made->left(5, made->end()) == 0);
  BOOST_TEST(made->outs.size() == 4U);
}

// Two leave one port for two others, with 1 and 3 shares. Alike until the first has come (2 in
// all), then the second has the port for itself: 1 + 3 shares in all.
BOOST_AUTO_TEST_CASE(what_ends_early_leaves_its_rate_to_others) {
  const auto made = bundle(flows_of({{0, 1}, {0, 2}}, {1, 3}, 3), star_cluster(3));
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->stages.size() == 2U);
  BOOST_CHECK_CLOSE(made->stages[0].end, 2 / kNic, kPercent);
  BOOST_CHECK_CLOSE(made->end(), 4 / kNic, kPercent);
  BOOST_CHECK_CLOSE(made->left(0, 1 / kNic), 0.5, kPercent);
  BOOST_CHECK_CLOSE(made->left(1, 2 / kNic), 2, kPercent);
  BOOST_CHECK_CLOSE(made->left(1, 3 / kNic), 1, kPercent);
}

// Max-min: 0 and 1 both send to 2, and 1 sends to 3 as well, beside its other flow.
BOOST_AUTO_TEST_CASE(rates_are_max_min_fair) {
  const auto made = bundle(flows_of({{0, 2}, {1, 2}, {1, 3}}, {1, 1, 1}, 4), star_cluster(4));
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->stages.size() == 1U);
  BOOST_CHECK_CLOSE(made->end(), 2 / kNic, kPercent);
}

BOOST_AUTO_TEST_CASE(flows_that_wait_or_share_more_are_none) {
  const Cluster star = star_cluster(3);
  const Flows plain = flows_of({{0, 1}, {1, 2}}, {1, 1}, 3);
  BOOST_TEST(bundle(plain, star).has_value());
  Flows waits = plain;
  waits.plan.after = {0};
  waits.plan.flows[1].after_end = 1;
  BOOST_TEST(!bundle(waits, star).has_value());
  Flows late = plain;
  late.plan.flows[0].latency = Seconds(1e-6);
  BOOST_TEST(!bundle(late, star).has_value());
  Flows empty = plain;
  empty.plan.flows[0].share = 0;
  BOOST_TEST(!bundle(empty, star).has_value());
  BOOST_TEST(!bundle(flows_of({{0, 0}}, {1}, 1), star).has_value());
  Cluster bursts = star;
  bursts.groups[0].node.nic_burst = Bytes(1e6);
  BOOST_TEST(!bundle(plain, bursts).has_value());
  Cluster tree = star;
  tree.fabric =
      FatTree{.down = {}, .up = {}, .links = {}, .bandwidth = BytesPerSecond(kNic), .latency = {}};
  BOOST_TEST(!bundle(plain, tree).has_value());
}

BOOST_AUTO_TEST_CASE(who_holds_a_port_is_in_the_way) {
  const auto made = bundle(flows_of({{0, 1}}, {1}, 3), star_cluster(3));
  PortUses uses(3);
  BOOST_TEST(uses.is_idle(*made));
  uses.hold(*made, 7);
  BOOST_TEST(!uses.is_idle(*made));
  BOOST_TEST((uses.in_the_way(0, 2) == std::optional<PortUses::Holder>(7)));
  BOOST_TEST((uses.in_the_way(2, 1) == std::optional<PortUses::Holder>(7)));
  BOOST_TEST(!uses.in_the_way(1, 0).has_value());  // the other directions
  uses.release(*made);
  uses.begin(0, 2);
  BOOST_TEST(!uses.is_idle(*made));
  uses.end(0, 2);
  BOOST_TEST(uses.is_idle(*made));
}

/// An exchange of all ranks, and one behind a computation of that time, on a lane of its own.
Program two_exchanges(double later) {
  Program program;
  program.lanes = {{"first", LaneKind::communication},
                   {"second", LaneKind::communication},
                   {"compute", LaneKind::compute}};
  const Collective what{.kind = CollectiveKind::all_to_all, .size = Bytes(kSize)};
  program.ops = {{.of = "wait", .lane = LaneId(2), .work = Compute{.duration = Seconds(later)}},
                 {.of = "one", .phase = Phase::communication, .lane = LaneId(0), .work = what},
                 {.of = "two",
                  .phase = Phase::communication,
                  .lane = LaneId(1),
                  .work = what,
                  .after = {{OpId(0)}}}};
  return program;
}

// The first is alone until the second comes; then both share what there is, and the second ends
// alone: a fourth of it is then left.
BOOST_DATA_TEST_CASE(a_second_collective_shares_what_the_first_has_left,
                     data::make({0.0, 0.25, 0.75, 0.999, 1.0, 1.5}), part) {
  const Cluster cluster = star_cluster(4);
  const double alone = 0.75 * kSize / kNic;
  const Trace trace = play(on_all_ranks(cluster, two_exchanges(part * alone)), cluster);
  const double latency = kNicLatency;
  const double left = std::max(0.0, 1 - part);
  std::array<double, 2> ends{};
  for (const Span& span : trace.spans)
    if (span.op.index() > 0) ends[span.op.index() - 1] = span.end.value();
  BOOST_CHECK_CLOSE(ends[0], latency + (1 + left) * alone, 1e-4);
  BOOST_CHECK_CLOSE(ends[1], latency + (part + 1 + left) * alone, 1e-4);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
