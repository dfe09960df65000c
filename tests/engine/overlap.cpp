// A collective beside compute that slows it down: 4 ms of all_reduce between two nodes, taking
// twice as long while one of its ranks computes.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(overlap_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kMs = 1e-3;
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

/// 1 ms, and 3 ms for 3 MB at 1 GB/s.
CommProfile profile_of(double compute_slowdown, double comm_slowdown) {
  CommCurve curve{.kind = CollectiveKind::all_reduce,
                  .ranks = 2,
                  .nodes = 2,
                  .segments = {{Seconds(1 * kMs), BytesPerSecond(1e9)}},
                  .smallest = Bytes(1),
                  .largest = Bytes(1e9)};
  return {.name = "test",
          .hardware = "made up",
          .source = "here",
          .curves = {curve},
          .overlap = {{CollectiveKind::all_reduce, Bytes(3e6), compute_slowdown, comm_slowdown}}};
}

/// The all_reduce, and on a lane of its own `compute`.
Schedule beside(const Cluster& cluster, double compute, std::uint32_t iterations = 1) {
  Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(3e6), CollectiveAlgorithm::ring);
  program.lanes.push_back({"compute", LaneKind::compute});
  program.ops.push_back(
      {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(compute)}});
  return on_all_ranks(cluster, program, iterations);
}

double end_of(const Trace& trace, std::size_t op, std::uint32_t iteration = 0) {
  for (const Span& span : trace.spans)
    if (span.rank == RankId(0) && span.op == OpId(op) && span.iteration == iteration)
      return span.end.value();
  return -1;
}

/// When the collective ends beside so much compute.
double end_beside(double compute, const CommProfile& profile, Fidelity fidelity = Fidelity::flow) {
  const Cluster cluster = star_cluster(2);
  return end_of(play(beside(cluster, compute), cluster, fidelity, &profile), 0);
}

BOOST_DATA_TEST_CASE(a_collective_catches_up_after_its_flows,
                     data::make({Fidelity::hop, Fidelity::flow}), fidelity) {
  const CommProfile profile = profile_of(1, 2);
  // Nothing beside it; half of 2 ms lost; all of it beside compute; compute that ends while it
  // catches up (2.25 ms of it done by then, 1.75 left).
  BOOST_CHECK_CLOSE(end_beside(0, profile, fidelity), 4 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_beside(2 * kMs, profile, fidelity), 5 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_beside(10 * kMs, profile, fidelity), 8 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_beside(4.5 * kMs, profile, fidelity), 6.25 * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(without_a_slowdown_compute_does_not_matter) {
  BOOST_CHECK_CLOSE(end_beside(10 * kMs, profile_of(1, 1)), 4 * kMs, kPercent);
  // A collective does not end before its flows do.
  BOOST_CHECK_CLOSE(end_beside(10 * kMs, profile_of(1, 0.5)), 4 * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(what_the_schedule_says_replaces_what_was_measured) {
  const Cluster cluster = star_cluster(2);
  const CommProfile profile = profile_of(1.25, 2);
  Schedule schedule = beside(cluster, 10 * kMs);
  // Beside 8 ms of the collective 6.4 ms of compute are done.
  const Trace measured = play(schedule, cluster, Fidelity::flow, &profile);
  BOOST_CHECK_CLOSE(end_of(measured, 0), 8 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_of(measured, 1), 11.6 * kMs, kPercent);
  schedule.overlap_slowdown = 1;
  const Trace said = play(schedule, cluster, Fidelity::flow, &profile);
  BOOST_CHECK_CLOSE(end_of(said, 0), 4 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_of(said, 1), 10 * kMs, kPercent);
}

// 24 of an A100's 108 multiprocessors, while all_gather runs.
BOOST_AUTO_TEST_CASE(channels_take_multiprocessors_from_compute) {
  const Cluster cluster =
      read_cluster(Document::parse("{use: dgx_a100, nodes: 1}", "c.yaml")->root());
  Program program =
      one_collective(CollectiveKind::all_gather, Bytes(1e9), CollectiveAlgorithm::automatic);
  program.lanes.push_back({"compute", LaneKind::compute});
  program.ops.push_back(
      {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(50 * kMs)}});
  Schedule schedule = on_all_ranks(cluster, program);
  BOOST_CHECK_CLOSE(end_of(play(schedule, cluster), 1), 50 * kMs, kPercent);
  schedule.channels_slow_compute = true;
  const Trace trace = play(schedule, cluster);
  const double gathered = end_of(trace, 0);
  BOOST_TEST(gathered > 1 * kMs);
  BOOST_CHECK_CLOSE(end_of(trace, 1), 50 * kMs + gathered * (1 - 84.0 / 108), kPercent);
  schedule.overlap_slowdown = 1;  // what is stated wins
  BOOST_CHECK_CLOSE(end_of(play(schedule, cluster), 1), 50 * kMs, kPercent);
}

// DeepEP's 20 of 108, whatever the schedule says of others; or as many as NCCL's 24 channels.
BOOST_AUTO_TEST_CASE(a_dispatcher_takes_its_own_multiprocessors) {
  const Cluster cluster =
      read_cluster(Document::parse("{use: dgx_a100, nodes: 1}", "c.yaml")->root());
  for (const auto& [own, left] : {std::pair(20, 88.0), std::pair(0, 84.0)}) {
    Program program =
        one_collective(CollectiveKind::all_gather, Bytes(1e9), CollectiveAlgorithm::automatic);
    std::get<Collective>(program.ops[0].work).multiprocessors = own;
    program.lanes.push_back({"compute", LaneKind::compute});
    program.ops.push_back(
        {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(50 * kMs)}});
    Schedule schedule = on_all_ranks(cluster, program);
    schedule.overlap_slowdown = 1;
    const Trace trace = play(schedule, cluster);
    BOOST_CHECK_CLOSE(end_of(trace, 1), 50 * kMs + end_of(trace, 0) * (1 - left / 108), kPercent);
  }
}

BOOST_AUTO_TEST_CASE(compute_of_one_rank_slows_all_of_the_collective) {
  const Cluster cluster = star_cluster(2);
  const CommProfile profile = profile_of(1, 2);
  Schedule schedule = beside(cluster, 4.5 * kMs);
  schedule.programs.push_back(
      one_collective(CollectiveKind::all_reduce, Bytes(3e6), CollectiveAlgorithm::ring));
  schedule.ranks[1].program = ProgramId(1);
  const Trace trace = play(schedule, cluster, Fidelity::flow, &profile);
  BOOST_CHECK_CLOSE(end_of(trace, 0), 6.25 * kMs, kPercent);
}

// All_reduce slows compute by 1.25, all_gather by 2: beside both it goes at half pace, and not at
// 1 / 2.5 or 1 / 3.25 of it. Either may end first.
BOOST_AUTO_TEST_CASE(of_two_slowdowns_at_once_the_larger_counts) {
  const Cluster cluster = star_cluster(2);
  CommProfile profile = profile_of(1.25, 1);
  CommCurve gather = profile.curves.front();
  gather.kind = CollectiveKind::all_gather;
  profile.curves.push_back(gather);
  profile.overlap.push_back({CollectiveKind::all_gather, Bytes(3e6), 2, 1});
  constexpr double kCompute = 100 * kMs;
  for (const auto& [reduced, gathered] : {std::pair(3e6, 9e6), std::pair(9e6, 3e6)}) {
    Schedule schedule = beside(cluster, kCompute);
    Program& program = schedule.programs.front();
    std::get<Collective>(program.ops[0].work).size = Bytes(reduced);
    program.lanes.push_back({"other", LaneKind::communication});
    Op other = program.ops[0];
    other.lane = LaneId(2);
    other.work = Collective{.kind = CollectiveKind::all_gather,
                            .size = Bytes(gathered),
                            .algorithm = CollectiveAlgorithm::ring};
    program.ops.push_back(other);
    const Trace trace = play(schedule, cluster, Fidelity::flow, &profile);
    const double reduce_ends = end_of(trace, 0), gather_ends = end_of(trace, 2);
    BOOST_TEST((reduce_ends < gather_ends) == (reduced < gathered));
    const double alone = std::max(0.0, reduce_ends - gather_ends);
    BOOST_CHECK_CLOSE(end_of(trace, 1),
                      kCompute + gather_ends * (1 - 1 / 2.0) + alone * (1 - 1 / 1.25), kPercent);
  }
}

BOOST_AUTO_TEST_CASE(each_iteration_starts_with_nothing_to_catch_up) {
  // Compute goes on to 9 ms, the first collective beside it to 8. The second does half a
  // millisecond's worth beside the last of it; 3.5 ms are left.
  const Cluster cluster = star_cluster(2);
  const CommProfile profile = profile_of(1, 2);
  const Trace trace = play(beside(cluster, 4.5 * kMs, 2), cluster, Fidelity::flow, &profile);
  BOOST_CHECK_CLOSE(end_of(trace, 0, 0), 8 * kMs, kPercent);
  BOOST_CHECK_CLOSE(end_of(trace, 0, 1), 12.5 * kMs, kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
