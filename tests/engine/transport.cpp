// Collectives whose segments hosts hand to their links, against the closed form of uncontended().
#include <boost/test/unit_test.hpp>
#include <set>

#include "base/random.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "engine/sockets.hpp"
#include "profile/transport_fit.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(transport_test)
namespace {

double all_reduce(const Cluster& cluster, const Transport& transport, double size,
                  Fidelity fidelity = Fidelity::hop) {
  const CommProfile profile = profile_of(transport);
  const Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(size), CollectiveAlgorithm::automatic);
  return play(on_all_ranks(cluster, program), cluster, fidelity, &profile).end.value();
}

BOOST_AUTO_TEST_CASE(a_ring_takes_the_closed_form_whatever_bounds_it) {
  const Transport by_link = transport_of(0.01 * kMs, 0.01 * kMs);
  const Transport by_host = transport_of(0.01 * kMs, 5 * kMs);
  const Transport by_wake = transport_of(9 * kMs, 0.5 * kMs);
  for (const Transport& transport : {by_link, by_host, by_wake}) {
    for (const int nodes : {2, 3, 8}) {
      for (const double size : {1e4, 4e6}) {
        const double expected =
            uncontended(transport, Bytes(size), nodes, BytesPerSecond(kNic)).value();
        BOOST_CHECK_CLOSE(all_reduce(hosts(nodes), transport, size), expected, kPercent);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(hosts_that_share_cores_work_one_after_another) {
  Cluster cluster = hosts(4);
  cluster.shared_cores = 1;
  const Transport transport = transport_of(0, 1 * kMs);
  // Four ranks hand over 12 segments each; the wire of the last is all that no host covers.
  const double work = transport.host_work(Bytes(1e4 / 8)).value();
  const double wire = 1e4 / 8 / (0.9 * kNic);
  const double time = all_reduce(cluster, transport, 1e4);
  BOOST_TEST(time >= 48 * work);
  BOOST_TEST(time <= 48 * work + 12 * wire);
}

BOOST_AUTO_TEST_CASE(flow_fidelity_is_the_pipeline_that_never_rests) {
  const Transport transport = transport_of(0.1 * kMs, 0.1 * kMs);
  const double hop = all_reduce(hosts(4), transport, 8e6);
  BOOST_CHECK_CLOSE(all_reduce(hosts(4), transport, 8e6, Fidelity::flow), hop, 1);
}

BOOST_AUTO_TEST_CASE(a_collective_waits_for_a_core_while_all_compute) {
  // When the second rank asks for the all_reduce the first one computes: it waits for one slice of
  // 4 ms, or until both have computed. The wire takes 1 ms.
  Cluster cluster = hosts(2);
  cluster.shared_cores = 1;
  const auto end_beside = [&](double compute, Fidelity fidelity, double wake) {
    Transport transport = transport_of(wake, 0);
    transport.host_rate = BytesPerSecond(0);
    transport.slice = Seconds(4 * kMs);
    const CommProfile profile = profile_of(transport);
    Program program =
        one_collective(CollectiveKind::all_reduce, Bytes(9e5), CollectiveAlgorithm::ring);
    program.lanes.push_back({"compute", LaneKind::compute});
    program.ops.push_back(
        {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(compute)}});
    const Trace trace = play(on_all_ranks(cluster, program), cluster, fidelity, &profile);
    for (const Span& span : trace.spans)
      if (span.op == OpId(0)) return span.end.value();
    return 0.0;
  };
  for (const Fidelity fidelity : {Fidelity::hop, Fidelity::flow}) {
    BOOST_CHECK_CLOSE(end_beside(30 * kMs, fidelity, 0), 5 * kMs, kPercent);
    BOOST_CHECK_CLOSE(end_beside(1 * kMs, fidelity, 0), 3 * kMs, kPercent);
  }
  BOOST_CHECK_CLOSE(end_beside(30 * kMs, Fidelity::flow, 2 * kMs), 7 * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(a_lane_runs_as_many_collectives_at_once_as_the_back_end) {
  // Bound by waking up, two small all_reduces at once take as long as one.
  Transport transport = transport_of(5 * kMs, 0);
  transport.host_rate = BytesPerSecond(0);
  const Cluster cluster = hosts(2);
  Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(100), CollectiveAlgorithm::ring);
  program.ops.push_back(program.ops.front());
  const auto time = [&](int at_a_time) {
    transport.at_a_time = at_a_time;
    const CommProfile profile = profile_of(transport);
    return play(on_all_ranks(cluster, program), cluster, Fidelity::hop, &profile).end.value();
  };
  BOOST_CHECK_CLOSE(time(1), 2 * time(2), 0.1);
}

/// The first rank serves; the others do the same with it. Alone, a message takes 10 ms.
Schedule exchange(const Cluster& cluster, const std::vector<Op>& ops, std::uint32_t iterations) {
  Schedule schedule = on_all_ranks(cluster, {.name = "server"}, iterations);
  const Program worker{
      .name = "worker", .lanes = {{"worker", LaneKind::communication}}, .ops = ops};
  schedule.programs.push_back(worker);
  for (std::size_t r = 1; r < schedule.ranks.size(); ++r) schedule.ranks[r].program = ProgramId(1);
  return schedule;
}

Op message(std::optional<RankId> source, std::optional<RankId> target) {
  return {.of = "message",
          .phase = Phase::communication,
          .lane = LaneId(0),
          .work = Transfer{.source = source, .target = target, .size = Bytes(9e6)}};
}
const Op kPush = message({}, RankId(0)), kPull = message(RankId(0), {});

BOOST_AUTO_TEST_CASE(messages_occupy_what_the_protocol_adds) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(2);
  const Trace trace = play(exchange(cluster, {kPush}, 1), cluster, Fidelity::hop, &profile);
  BOOST_CHECK_CLOSE(trace.end.value(), 1e7 / kNic, kPercent);
}

BOOST_AUTO_TEST_CASE(messages_inside_a_node_bear_no_protocol_and_take_no_turns) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = star_cluster(1, 3);
  const Trace trace = play(exchange(cluster, {kPull}, 1), cluster, Fidelity::hop, &profile);
  for (const std::size_t worker : {1U, 2U})
    BOOST_CHECK_CLOSE(trace.iteration_end[worker][0].value(), 2 * 9e6 / kNvlink + kNvlinkLatency,
                      kPercent);
}

/// The head start that others have over this rank's first message, operation `op`, of 10 ms.
double head_start(const Cluster& cluster, std::uint64_t seed, std::uint32_t op,
                  std::uint32_t rank) {
  RandomStream draw = random_stream(random_stream(seed, "head start", op)(), "head start", rank, 0);
  return 2.5 * cluster.head_start * 2 * uniform01(draw) * 10 * kMs;
}

BOOST_AUTO_TEST_CASE(the_first_message_that_leaves_a_port_has_a_head_start) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  Cluster cluster = hosts(3);
  std::set<double> drawn;
  for (const double part : {0.0, 0.1, 0.19})
    for (const std::uint64_t seed : {1, 2, 3}) {
      cluster.head_start = part;
      Schedule schedule = exchange(cluster, {kPull}, 1);
      schedule.seed = seed;
      const Trace trace = play(schedule, cluster, Fidelity::hop, &profile);
      // Alone for so long, then the two share the port until the first one's 10 ms are over.
      const double ahead = head_start(cluster, seed, 0, 2);
      BOOST_TEST(ahead < 10 * kMs);
      BOOST_CHECK_CLOSE(trace.iteration_end[1][0].value(), 20 * kMs - ahead, kPercent);
      BOOST_CHECK_CLOSE(trace.iteration_end[2][0].value(), 20 * kMs, kPercent);
      drawn.insert(ahead);
    }
  BOOST_TEST(drawn.size() == 7U);  // without any they are alike
}

BOOST_AUTO_TEST_CASE(
    messages_that_begin_at_once_over_used_connections_share_the_port_from_then_on) {
  // Both pull when both have computed for 1 ms. Of the first pulls one has a head start, so that
  // its worker computes earlier; the second ones have none and end together.
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(3);
  Op compute{.of = "compute", .lane = LaneId(0), .work = Compute{.duration = Seconds(kMs)}};
  compute.signals = {EventId(0)};
  Op pull = kPull;
  pull.awaits = {{EventId(0)}};
  Schedule schedule = exchange(cluster, {compute, pull}, 2);
  schedule.events = {{.name = "computed", .needs = 2}};
  const Trace trace = play(schedule, cluster, Fidelity::hop, &profile);
  BOOST_CHECK_LT(trace.iteration_end[1][0].value(), 21 * kMs * (1 - 1e-3));
  BOOST_CHECK_CLOSE(trace.iteration_end[2][0].value(), 21 * kMs, kPercent);
  for (const std::size_t rank : {1, 2})
    BOOST_CHECK_CLOSE(trace.iteration_end[rank][1].value(), 42 * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(a_head_start_ends_with_the_messages_that_have_it) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  Cluster cluster = hosts(4);
  cluster.head_start = 1000;
  const Trace trace = play(exchange(cluster, {kPull}, 1), cluster, Fidelity::hop, &profile);
  std::vector<double> ends;
  for (const std::size_t rank : {1, 2, 3}) ends.push_back(trace.iteration_end[rank][0].value());
  for (std::size_t i = 0; i < 3; ++i)
    BOOST_CHECK_CLOSE(ends[i], static_cast<double>(10 * (i + 1)) * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(messages_that_come_to_a_port_share_it) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(3);
  const Trace trace = play(exchange(cluster, {kPush}, 2), cluster, Fidelity::hop, &profile);
  for (const std::size_t rank : {1, 2}) {
    BOOST_CHECK_CLOSE(trace.iteration_end[rank][0].value(), 20 * kMs, kPercent);
    BOOST_CHECK_CLOSE(trace.iteration_end[rank][1].value(), 40 * kMs, kPercent);
  }
}

BOOST_AUTO_TEST_CASE(one_that_comes_later_shares_a_push_at_once_and_a_pull_after_the_head_start) {
  // The second worker, half as fast, computes for 4 ms longer. The first one's push has 6 ms left
  // then, which take 12 as the port is shared: 4 + 4 + 12; the second's has 4 ms left: 24 in all.
  // Of a pull the first one has what is left less its head start to share.
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(3);
  const Op compute{
      .of = "compute", .lane = LaneId(0), .work = Compute{.duration = Seconds(4 * kMs)}};
  const auto ends = [&](const Op& message) {
    Schedule schedule = exchange(cluster, {compute, message}, 1);
    schedule.ranks[2].slowdown = 2;
    const Trace trace = play(schedule, cluster, Fidelity::hop, &profile);
    return std::pair{trace.iteration_end[1][0].value(), trace.iteration_end[2][0].value()};
  };
  const auto pushes = ends(kPush), pulls = ends(kPull);
  BOOST_CHECK_CLOSE(pushes.first, 20 * kMs, kPercent);
  BOOST_CHECK_CLOSE(pushes.second, 24 * kMs, kPercent);
  const double ahead = head_start(cluster, Schedule{}.seed, 1, 2);
  BOOST_TEST(ahead < 6 * kMs);
  BOOST_CHECK_CLOSE(pulls.first, 20 * kMs - ahead, kPercent);
  BOOST_CHECK_CLOSE(pulls.second, 24 * kMs, kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
