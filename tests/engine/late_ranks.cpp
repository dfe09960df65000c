// Collectives over sockets of ranks that come to them one after the other: who waits for whom, and
// what travels behind what.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "engine/play.hpp"
#include "engine/sockets.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(late_ranks_test)
namespace {

/// Ranks that come to their collectives one after the other, on hosts whose work takes no time.
struct Comers {
  std::vector<double> at;  ///< by rank, in units of what a member's own part takes on its link
  double queued = 1;       ///< of a part that fits into a port's queue

  static constexpr double kPart = 1e7 / kNic;

  /// When each rank is through with each of them, in the same units; all are asked for at once, and
  /// a part of the first is 9 MB.
  std::vector<std::vector<double>> ends(const std::vector<Collective>& collectives) const {
    Transport transport = transport_of(0, 0);
    transport.host_rate = BytesPerSecond(0);
    transport.at_a_time = 2;
    transport.queued = Bytes(queued * 1e7);
    const CommProfile profile = profile_of(transport);
    const Cluster cluster = hosts(static_cast<int>(at.size()));
    Schedule schedule = on_all_ranks(cluster, {.name = "none"});
    schedule.programs.clear();
    for (std::size_t r = 0; r < at.size(); ++r) {
      Program program{.name = "worker",
                      .lanes = {{"gloo", LaneKind::communication}, {"compute", LaneKind::compute}}};
      program.ops.push_back({.of = "compute",
                             .lane = LaneId(1),
                             .work = Compute{.duration = Seconds(at[r] * kPart)}});
      for (const Collective& collective : collectives)
        program.ops.push_back({.of = "collective",
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

/// One after the other, as good as at once.
Comers three_in_order() { return {{0, 1e-6, 2e-6}}; }

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

BOOST_AUTO_TEST_CASE(who_comes_later_sends_first_and_is_sent_to_after_that) {
  // Two ranks that each send and then ask to receive; a sender is through once it has handed over.
  Transport transport = transport_of(0, 0);
  transport.host_rate = BytesPerSecond(0);
  transport.queued = Bytes(1e7);
  const CommProfile profile = profile_of(transport);
  const Cluster cluster = hosts(2);
  Schedule schedule = on_all_ranks(cluster, {.name = "none"});
  schedule.programs.clear();
  schedule.groups.clear();
  for (std::size_t r = 0; r < 2; ++r) {
    Program program{.name = "stage",
                    .lanes = {{"compute", LaneKind::compute},
                              {"send", LaneKind::communication},
                              {"receive", LaneKind::communication}}};
    program.ops.push_back(
        {.of = "compute",
         .lane = LaneId(0),
         .work = Compute{.duration = Seconds(r == 0 ? 0 : 0.25 * Comers::kPart)}});
    for (std::size_t way = 0; way < 2; ++way)
      program.ops.push_back(
          {.of = "message",
           .phase = Phase::communication,
           .lane = LaneId(1 + way),
           .work = Collective{.kind = CollectiveKind::send_recv, .group = way, .size = Bytes(9e6)},
           .after = {{OpId(0)}}});
    schedule.programs.push_back(program);
    schedule.ranks[r].program = ProgramId(r);
    schedule.ranks[r].groups = {GroupId(r), GroupId(1 - r)};
  }
  for (std::size_t from = 0; from < 2; ++from)
    schedule.groups.push_back(
        {.name = "message", .members = {RankId(from), RankId(1 - from)}, .ranks = 2, .nodes = 2});
  std::vector<double> ends(4);
  for (const Span& span : play(schedule, cluster, Fidelity::hop, &profile).spans)
    if (span.op != OpId(0))
      ends[2 * span.rank.index() + span.op.index() - 1] = span.end.value() / Comers::kPart;
  check_ends(ends, {1.25, 1.25, 0.25, 2.25});  // sent and received, of either rank
}

BOOST_AUTO_TEST_CASE(of_three_ranks_that_exchange_the_last_one_waits_longest) {
  // At the end of its own message for the first (which shares that one's link with the second's)
  // its word goes out, and the reply shares its link with the second's message.
  const auto ends = three_in_order().ends(CollectiveKind::reduce_scatter);
  BOOST_CHECK_CLOSE(ends[0], 2, 1e-3);
  BOOST_CHECK_CLOSE(ends[2], 3.5, 1e-3);
}

BOOST_AUTO_TEST_CASE(a_word_waits_for_no_more_than_a_port_queues) {
  // The word to the first goes out behind a hundredth of the message to another. Then the first's
  // reply has its link for itself from 1 on: the last one's two parts come by 3.
  Comers comers = three_in_order();
  comers.queued = 0.01;
  const auto ends = comers.ends(CollectiveKind::reduce_scatter);
  BOOST_CHECK_CLOSE(ends[0], 2, 1);
  BOOST_CHECK_CLOSE(ends[2], 3, 1);
}

BOOST_AUTO_TEST_CASE(messages_to_several_others_leave_their_port_in_turns) {
  // The last of four has a part for each of the others, which wait for it. A third of each leaves
  // at a time: all three have two thirds before one has the whole.
  Comers comers{{10, 0, 0, 0}};
  comers.queued = 1.0 / 3;
  std::vector<double> others = comers.ends(CollectiveKind::reduce_scatter);
  others.erase(others.begin());
  std::sort(others.begin(), others.end());
  check_ends(others, {10 + 7.0 / 3, 10 + 8.0 / 3, 13});
}

BOOST_AUTO_TEST_CASE(a_member_that_sends_before_it_is_ready_gets_its_part_later) {
  // Segments are half a part. Of two the later one's are through at 1; its words stand behind them.
  check_ends(Comers{{0, 0.25}}.ends(CollectiveKind::all_gather), {1.25, 1.75});
  // Of more its word to the rank before it leaves behind its first segment, over another
  // connection.
  const auto ends = three_in_order().ends(CollectiveKind::all_gather);
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

BOOST_AUTO_TEST_CASE(where_compute_slows_it_down_members_catch_up_together) {
  // The later one comes at 0.25. Beside compute all along, its two parts go at half pace.
  Transport transport = transport_of(0, 0);
  transport.host_rate = BytesPerSecond(0);
  CommProfile profile = profile_of(transport);
  profile.overlap = {{CollectiveKind::all_reduce, Bytes(18e6), 1, 2}};
  const Cluster cluster = hosts(2);
  Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(18e6), CollectiveAlgorithm::automatic);
  program.lanes.push_back({"compute", LaneKind::compute});
  const auto compute = [](double parts) {
    return Op{.of = "compute",
              .lane = LaneId(1),
              .work = Compute{.duration = Seconds(parts * Comers::kPart)}};
  };
  Program late = program;
  program.ops.push_back(compute(9));
  late.ops.insert(late.ops.begin(), compute(0.25));
  late.ops.back().after = {{OpId(0)}};
  late.ops.push_back(compute(9));
  Schedule schedule = on_all_ranks(cluster, program);
  schedule.programs.push_back(late);
  schedule.ranks[1].program = ProgramId(1);
  for (const Span& span : play(schedule, cluster, Fidelity::hop, &profile).spans) {
    const OpId collective(span.rank == RankId(0) ? 0 : 1);
    if (span.op == collective) BOOST_CHECK_CLOSE(span.end.value() / Comers::kPart, 4.25, kPercent);
  }
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
  late.ops.insert(late.ops.begin(), {.of = "compute",
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

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
