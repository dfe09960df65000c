// Collectives whose segments hosts hand to their links, against the closed form of uncontended().
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "profile/transport_fit.hpp"

namespace rehearse {
namespace {

constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
constexpr double kMs = 1e-3;

Cluster hosts(int nodes) {
  Cluster cluster = star_cluster(nodes);
  cluster.groups.front().node.nic_latency = Seconds(0);
  return cluster;
}

Transport transport_of(double wake, double per_message) {
  return {.segments = 2,
          .largest_segment = Bytes(1e6),
          .at_a_time = 1,
          .efficiency = 0.9,
          .wake = Seconds(wake),
          .per_message = Seconds(per_message),
          .host_rate = BytesPerSecond(4e9),
          .slice = Seconds(0),
          .measured_at = BytesPerSecond(kNic)};
}

CommProfile profile_of(const Transport& transport) {
  return {.name = "test",
          .hardware = "made up",
          .source = "here",
          .curves = {},
          .transport = transport};
}

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
        {.label = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(compute)}});
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

/// Ranks that come to their collectives one after the other, on hosts whose work takes no time.
struct Comers {
  std::vector<double> at;  ///< by rank, in units of what a member's own part takes on its link

  static constexpr double kPart = 1e7 / kNic;

  /// When each rank is through with each of them, in the same units; all are asked for at once, and
  /// a part of the first is 9 MB.
  std::vector<std::vector<double>> ends(const std::vector<Collective>& collectives) const {
    Transport transport = transport_of(0, 0);
    transport.host_rate = BytesPerSecond(0);
    transport.at_a_time = 2;
    const CommProfile profile = profile_of(transport);
    const Cluster cluster = hosts(static_cast<int>(at.size()));
    Schedule schedule = on_all_ranks(cluster, {.name = "none"});
    schedule.programs.clear();
    for (std::size_t r = 0; r < at.size(); ++r) {
      Program program{.name = "worker",
                      .lanes = {{"gloo", LaneKind::communication}, {"compute", LaneKind::compute}}};
      program.ops.push_back({.label = "compute",
                             .lane = LaneId(1),
                             .work = Compute{.duration = Seconds(at[r] * kPart)}});
      for (const Collective& collective : collectives)
        program.ops.push_back({.label = "collective",
                               .phase = Phase::communication,
                               .lane = LaneId(0),
                               .work = collective,
                               .after = {{OpId(0)}}});
      schedule.programs.push_back(program);
      schedule.ranks[r].program = ProgramId(r);
    }
    std::vector<std::vector<double>> result(at.size());
    for (const Span& span : play(schedule, cluster, Fidelity::hop, &profile).spans)
      if (span.op != OpId(0)) result[span.rank.index()].push_back(span.end.value() / kPart);
    return result;
  }
  std::vector<double> ends(CollectiveKind kind) const {
    std::vector<double> result;
    for (const auto& one : ends({Collective{.kind = kind, .size = parts(1)}}))
      result.push_back(one.front());
    return result;
  }
  Bytes parts(double share) const { return Bytes(share * 9e6 * static_cast<double>(at.size())); }
};

void check_ends(const std::vector<double>& actual, const std::vector<double>& expected) {
  BOOST_REQUIRE_EQUAL(actual.size(), expected.size());
  for (std::size_t r = 0; r < actual.size(); ++r)
    BOOST_CHECK_CLOSE(actual[r], expected[r], kPercent);
}

BOOST_AUTO_TEST_CASE(of_two_ranks_that_exchange_the_earlier_one_replies) {
  // The later one finds the other ready, and sends; its own word is behind that.
  check_ends(Comers{{0, 0.25}}.ends(CollectiveKind::reduce_scatter), {1.25, 2.25});
  check_ends(Comers{{0.25, 0}}.ends(CollectiveKind::reduce_scatter), {2.25, 1.25});
}

BOOST_AUTO_TEST_CASE(of_three_ranks_that_exchange_the_last_one_waits_longest) {
  // At the end of its own message for the first (which shares that one's link with the second's)
  // its word goes out, and the reply shares its link with the second's message.
  const double late = 1e-6;
  const auto ends = Comers{{0, late, 2 * late}}.ends(CollectiveKind::reduce_scatter);
  BOOST_CHECK_CLOSE(ends[0], 2, 1e-3);
  BOOST_CHECK_CLOSE(ends[2], 3.5, 1e-3);
}

BOOST_AUTO_TEST_CASE(a_member_that_sends_before_it_is_ready_gets_its_part_later) {
  // Segments are half a part. Of two the later one's are through at 1; its words stand behind them.
  check_ends(Comers{{0, 0.25}}.ends(CollectiveKind::all_gather), {1.25, 1.75});
  // Of more its word to the rank before it leaves behind its first segment, over another
  // connection.
  const double late = 1e-6;
  const auto ends = Comers{{0, late, 2 * late}}.ends(CollectiveKind::all_gather);
  BOOST_CHECK_CLOSE(ends[0], 2, 1e-3);
  BOOST_CHECK_CLOSE(ends[2], 2.5, 1e-3);
}

BOOST_AUTO_TEST_CASE(members_that_are_ready_before_they_send_are_not_held_up) {
  check_ends(Comers{{0, 0.25}}.ends(CollectiveKind::all_reduce), {2.25, 2.25});
  // Of more who gets all from the last one is the last.
  const auto ends = Comers{{0, 0.1, 0.25}}.ends(CollectiveKind::all_reduce);
  BOOST_CHECK_CLOSE(ends[0], 4.25, kPercent);
  BOOST_TEST(ends[1] >= 4.1);
  BOOST_TEST(ends[2] >= 4.1);
}

BOOST_AUTO_TEST_CASE(what_is_asked_for_later_travels_behind) {
  // A small all_gather, asked for when parts of a reduce_scatter are on their way: it comes after
  // them, and would take twice its wire's time if it shared the link.
  const Comers comers{{0, 0.25}};
  const auto ends = comers.ends({{.kind = CollectiveKind::reduce_scatter, .size = comers.parts(1)},
                                 {.kind = CollectiveKind::all_gather, .size = comers.parts(2e-4)}});
  check_ends(ends[0], {1.25, 1.25 + 2e-4});
  check_ends(ends[1], {2.25, 2.25 + 2e-4});
}

BOOST_AUTO_TEST_CASE(who_is_through_begins_the_next_one) {
  // Two iterations of a reduce_scatter alone: the first rank, through at 1.25, comes again at once,
  // while its reply is on its way; now it is the earlier one by a part.
  const Cluster cluster = hosts(2);
  Transport transport = transport_of(0, 0);
  transport.host_rate = BytesPerSecond(0);
  const CommProfile profile = profile_of(transport);
  Program program =
      one_collective(CollectiveKind::reduce_scatter, Bytes(18e6), CollectiveAlgorithm::automatic);
  program.lanes.push_back({"compute", LaneKind::compute});
  Program late = program;
  late.ops.insert(late.ops.begin(), {.label = "compute",
                                     .lane = LaneId(1),
                                     .work = Compute{.duration = Seconds(0.25 * Comers::kPart)}});
  late.ops.back().after = {{OpId(0)}};
  Schedule schedule = on_all_ranks(cluster, program, 2);
  schedule.programs.push_back(late);
  schedule.ranks[1].program = ProgramId(1);
  const Trace trace = play(schedule, cluster, Fidelity::hop, &profile);
  const auto end = [&](std::size_t rank, std::size_t iteration) {
    return trace.iteration_end[rank][iteration].value() / Comers::kPart;
  };
  BOOST_CHECK_CLOSE(end(0, 0), 1.25, kPercent);
  BOOST_CHECK_CLOSE(end(1, 0), 2.25, kPercent);
  BOOST_CHECK_CLOSE(end(0, 1), 3.25, kPercent);
  BOOST_CHECK_CLOSE(end(1, 1), 4.25, kPercent);
}

/// The first rank serves; the others push to it, in phase.
Schedule pushes(const Cluster& cluster, std::uint32_t iterations) {
  Schedule schedule = on_all_ranks(cluster, {.name = "server"}, iterations);
  Program worker{.name = "worker", .lanes = {{"push", LaneKind::communication}}};
  worker.ops.push_back({.label = "push",
                        .phase = Phase::communication,
                        .lane = LaneId(0),
                        .work = Transfer{.target = RankId(0), .size = Bytes(9e6)}});
  schedule.programs.push_back(worker);
  for (std::size_t r = 1; r < schedule.ranks.size(); ++r) schedule.ranks[r].program = ProgramId(1);
  return schedule;
}

BOOST_AUTO_TEST_CASE(messages_occupy_what_the_protocol_adds) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(2);
  BOOST_CHECK_CLOSE(play(pushes(cluster, 1), cluster, Fidelity::hop, &profile).end.value(),
                    1e7 / kNic, kPercent);
}

BOOST_AUTO_TEST_CASE(messages_inside_a_node_bear_no_protocol_and_take_no_turns) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = star_cluster(1, 3);
  const Trace trace = play(pushes(cluster, 1), cluster, Fidelity::hop, &profile);
  for (const std::size_t worker : {1U, 2U})
    BOOST_CHECK_CLOSE(trace.iteration_end[worker][0].value(), 2 * 9e6 / kNvlink + kNvlinkLatency,
                      kPercent);
}

BOOST_AUTO_TEST_CASE(the_first_messages_through_a_port_take_turns) {
  const CommProfile profile = profile_of(transport_of(0, 0));
  const Cluster cluster = hosts(3);
  const Trace trace = play(pushes(cluster, 2), cluster, Fidelity::hop, &profile);
  // The second worker waits for the first, whose next message then shares the port with its own.
  BOOST_CHECK_CLOSE(trace.iteration_end[1][0].value(), 0.01, kPercent);
  BOOST_TEST(trace.iteration_end[2][0].value() > 0.02);
  BOOST_CHECK_CLOSE(trace.end.value(), 0.04, kPercent);
}

}  // namespace
}  // namespace rehearse
