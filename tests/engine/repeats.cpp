// Repeats of an iteration that are steady are not played, and stand in the trace all the same.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "engine/stretch.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(repeats_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kPercent = 1e-7;

/// So many micro-batches of compute and, where `size` is not 0, an all_gather beside the next one,
/// that it waits for; then an all_reduce of all and a last computation.
Program micro_batches(int times, double size) {
  Program program{.name = "worker",
                  .lanes = {{"compute", LaneKind::compute}, {"nccl", LaneKind::communication}}};
  const auto compute = [](double seconds, std::vector<After> after) {
    return Op{.verb = Verb::forward,
              .lane = LaneId(0),
              .work = Compute{.duration = Seconds(seconds)},
              .after = std::move(after)};
  };
  for (int k = 0; k < times; ++k) {
    const std::size_t at = program.ops.size();
    program.ops.push_back(compute(
        0.01, k > 1 && size > 0 ? std::vector<After>{{OpId(at - 3)}} : std::vector<After>{}));
    if (size > 0)
      program.ops.push_back({.verb = Verb::all_gather,
                             .phase = Phase::communication,
                             .lane = LaneId(1),
                             .work = Collective{.kind = CollectiveKind::all_gather,
                                                .size = Bytes(size),
                                                .algorithm = CollectiveAlgorithm::ring},
                             .after = {{OpId(at)}}});
  }
  program.ops.push_back({.verb = Verb::all_reduce,
                         .phase = Phase::communication,
                         .lane = LaneId(1),
                         .work = Collective{.kind = CollectiveKind::all_reduce,
                                            .size = Bytes(1e6),
                                            .algorithm = CollectiveAlgorithm::ring},
                         .after = {{OpId(program.ops.size() - 1)}}});
  program.ops.push_back(compute(0.002, {{OpId(program.ops.size() - 1)}}));
  return program;
}

void check_alike(const Trace& few, const Trace& all) {
  BOOST_CHECK_CLOSE(few.end.value(), all.end.value(), kPercent);
  BOOST_REQUIRE_EQUAL(few.spans.size(), all.spans.size());
  for (std::size_t i = 0; i < few.spans.size(); ++i) {
    const Span &one = few.spans[i], &other = all.spans[i];
    BOOST_REQUIRE(one.rank == other.rank && one.op == other.op && one.iteration == other.iteration);
    BOOST_REQUIRE_SMALL((one.ready - other.ready).value(), 1e-9);
    BOOST_REQUIRE_SMALL((one.start - other.start).value(), 1e-9);
    BOOST_REQUIRE_SMALL((one.end - other.end).value(), 1e-9);
  }
  for (std::size_t kind = 0; kind < few.traffic.bytes.size(); ++kind)
    BOOST_CHECK_SMALL(few.traffic.bytes[kind] - all.traffic.bytes[kind],
                      1e-9 * all.traffic.bytes[kind] + 1e-9);
  BOOST_TEST(few.traffic.flows == all.traffic.flows);
}

/// Seconds of all computations in a trace.
double computed(const Schedule& schedule, const Trace& trace) {
  double sum = 0;
  for (const Span& span : trace.spans) {
    const Program& program = schedule.program_of(span.rank);
    if (std::holds_alternative<Compute>(program.ops[span.op.index()].work))
      sum += (span.end - span.start).value();
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(micro_batches_are_a_stretch_and_what_frames_them_is_not) {
  const auto stretch = longest_stretch(micro_batches(20, 1e6), 4);
  BOOST_REQUIRE(stretch.has_value());
  BOOST_TEST(stretch->period == 2U);
  BOOST_TEST(stretch->times >= 17U);
  BOOST_TEST(stretch->end() <= 40U);
  BOOST_TEST(!longest_stretch(micro_batches(20, 1e6), 30).has_value());
}

// One all_gather of two nodes at 1 GB/s takes half of its bytes' time and a latency: below the
// computation's 10 ms with 1 MB, above it with 50 MB.
BOOST_DATA_TEST_CASE(a_trace_is_the_same_without_them,
                     data::make({0.0, 1e6, 50e6}) * data::make({1.0, 1.3}), size, slowdown) {
  const Cluster cluster = star_cluster(2);
  Schedule schedule = on_all_ranks(cluster, micro_batches(40, size), 3);
  schedule.ranks[1].slowdown = slowdown;
  Machine machine{.schedule = schedule, .cluster = cluster};
  const Trace few = play(machine);
  machine.play_all = true;
  check_alike(few, play(machine));
}

// Ranks that compute by themselves, each at its own pace, meet only behind their micro-batches.
BOOST_AUTO_TEST_CASE(ranks_that_do_not_wait_for_each_other_keep_their_paces) {
  const Cluster cluster = star_cluster(4);
  Schedule schedule = on_all_ranks(cluster, micro_batches(50, 0), 2);
  for (std::size_t r = 0; r < 4; ++r) schedule.ranks[r].slowdown = 1 + 0.1 * static_cast<double>(r);
  Machine machine{.schedule = schedule, .cluster = cluster};
  const Trace few = play(machine);
  machine.play_all = true;
  check_alike(few, play(machine));
}

// A stop in a micro-batch that others follow would stand in the trace as often as they are.
BOOST_DATA_TEST_CASE(each_stop_is_in_the_trace_once, data::make({0.03, 0.13, 0.7, 2.0}), every) {
  const Cluster cluster = star_cluster(2);
  Schedule schedule = on_all_ranks(cluster, micro_batches(40, 1e6), 3);
  schedule.interruptions = {.every = Seconds(every), .time = Seconds(7e-3)};
  Machine machine{.schedule = schedule, .cluster = cluster};
  const Trace few = play(machine);
  machine.play_all = true;
  BOOST_CHECK_CLOSE(computed(schedule, few), computed(schedule, play(machine)), kPercent);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
