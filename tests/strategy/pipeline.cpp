// Pipelines against closed forms: equal stages, each a unit, on one-GPU nodes.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <map>
#include <random>

#include "memory/replay.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {

inline std::ostream& operator<<(std::ostream& out, PipelineSchedule schedule) {
  return out << pipeline_schedule_names()[static_cast<std::size_t>(schedule)];
}

BOOST_AUTO_TEST_SUITE(pipeline_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kForward = 2 * kMs, kBackward = 4 * kMs, kOptimizer = 3 * kMs;

Toy stages(std::size_t count) {
  return equal_units(count, {kMiB, kForward, kBackward}, kOptimizer);
}

Layout pipeline(PipelineSchedule schedule, int ranks, int micro_batches, int chunks = 1) {
  Layout layout;
  layout.mesh.pipeline = ranks;
  layout.schedule = schedule;
  layout.virtual_stages = chunks;
  layout.micro_batches = micro_batches;
  return layout;
}

/// A network without latency: what a hand-made model sends has no size.
Cluster free_network(int nodes) {
  Cluster cluster = star_cluster(nodes);
  cluster.groups.front().node.nic_latency = Seconds(0);
  return cluster;
}

/// A stage's optimizer has its share of the parameters.
double expected(int ranks, int micro, double bubbles) {
  return (micro + bubbles) * (kForward + kBackward) + kOptimizer / ranks;
}

BOOST_DATA_TEST_CASE(gpipe_and_1f1b_wait_for_p_minus_1_micro_batches,
                     data::make({PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) *
                         data::make({2, 4, 5}) * data::make({1, 4, 12}),
                     schedule, ranks, micro) {
  const double step = step_of(pipeline(schedule, ranks, micro), stages(ranks), free_network(ranks));
  BOOST_CHECK_CLOSE(step, expected(ranks, micro, ranks - 1), kPercent);
}

BOOST_DATA_TEST_CASE(interleaving_divides_the_bubble, data::make({2, 3}) * data::make({1, 2, 4}),
                     chunks, rounds) {
  const int ranks = 4, micro = ranks * rounds;
  const double step = step_of(pipeline(PipelineSchedule::interleaved, ranks, micro, chunks),
                              stages(ranks * chunks), free_network(ranks));
  const double passes = (kForward + kBackward) * chunks;
  BOOST_CHECK_CLOSE(step, micro * passes + (ranks - 1) * passes / chunks + kOptimizer / ranks,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(zero_bubble_fills_its_bubble_with_weights) {
  // Half of a backward without operators is of weights: (p - 1)(F + B - W), and F = B = W here.
  const int ranks = 4, micro = 8;
  const double step = step_of(pipeline(PipelineSchedule::zero_bubble, ranks, micro), stages(ranks),
                              free_network(ranks));
  BOOST_CHECK_CLOSE(
      step, micro * (kForward + kBackward) + (ranks - 1) * kForward + kOptimizer / ranks, kPercent);
}

BOOST_AUTO_TEST_CASE(replicas_reduce_behind_the_last_backward_of_their_stage) {
  // Two replicas of two stages: the first stage's backward ends last, and its bucket behind it.
  const Layout layout = pipeline(PipelineSchedule::one_f_one_b, 2, 4);
  const double step = step_of({kRingMegatron, layout}, stages(2), star_cluster(4));
  const double reduced = all_reduce_time(2, kMiB);
  BOOST_CHECK_GT(step, expected(2, 4, 1) + reduced);
  BOOST_CHECK_CLOSE(step, expected(2, 4, 1) + reduced, 1);  // latencies of messages of no size
}

BOOST_AUTO_TEST_CASE(samples_of_a_step_are_those_of_all_replicas) {
  const Schedule schedule =
      schedule_of(pipeline(PipelineSchedule::one_f_one_b, 2, 6), stages(2), star_cluster(8));
  BOOST_TEST(schedule.samples_per_iteration == 4 * 6);
  BOOST_TEST(schedule.programs.size() == 2u);
  BOOST_TEST(schedule.groups.size() == 2u + 4u * 2u);
}

BOOST_AUTO_TEST_CASE(a_stage_keeps_as_many_micro_batches_as_are_in_flight) {
  const int ranks = 4, micro = 8;
  Toy toy = equal_units(ranks, {kMiB, kForward, kBackward, 10 * kMiB}, kOptimizer);
  const Schedule one =
      schedule_of(pipeline(PipelineSchedule::one_f_one_b, ranks, micro), toy, star_cluster(ranks));
  const Schedule all =
      schedule_of(pipeline(PipelineSchedule::gpipe, ranks, micro), toy, star_cluster(ranks));
  const auto activations = [](const Program& program) {
    MemoryReplay replay(program, {.caching = false});
    Bytes most;
    for (int i = 0; i < 2; ++i)
      replay.iterate([&](std::size_t, const TensorEvent&) {
        most =
            std::max(most, replay.use().by_kind[static_cast<std::size_t>(MemoryKind::activations)]);
      });
    return most.value();
  };
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    BOOST_TEST(activations(one.programs[at]) == (ranks - rank) * 10 * kMiB);
    BOOST_TEST(activations(all.programs[at]) == micro * 10 * kMiB);
  }
}

/// A list scheduler that knows nothing of the simulator's: when all ranks have ended, where stage s
/// takes `times[s]` (forward, and half of a backward) and messages take no time.
double listed(const PipelineOrder& pipeline, const std::vector<std::pair<double, double>>& times,
              double optimizer) {
  std::map<std::tuple<int, bool, int>, double> end;  // stage, backward, micro-batch
  std::vector<std::size_t> next(pipeline.order.size(), 0);
  std::vector<double> free(pipeline.order.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      for (; next[rank] < pipeline.order[rank].size(); ++next[rank], moved = true) {
        const PipelineAction& one = pipeline.order[rank][next[rank]];
        const int stage = pipeline.stages[rank][one.chunk];
        const bool forward = one.what == PipelineAction::forward;
        const int from = stage + (forward ? -1 : 1);
        double ready = free[rank];
        if (one.what != PipelineAction::weight && from >= 0 && from < pipeline.stage_count()) {
          const auto before = end.find({from, !forward, one.micro});
          if (before == end.end()) break;
          ready = std::max(ready, before->second);
        }
        const auto [ahead, half] = times[static_cast<std::size_t>(stage)];
        free[rank] = ready + (forward                                ? ahead
                              : one.what == PipelineAction::backward ? 2 * half
                                                                     : half);
        if (one.what != PipelineAction::weight) end[{stage, !forward, one.micro}] = free[rank];
      }
    }
  }
  return *std::ranges::max_element(free) + optimizer;
}

BOOST_AUTO_TEST_CASE(random_pipelines_take_what_a_list_scheduler_says) {
  using S = PipelineSchedule;
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int compared = 0;
  for (int i = 0; i < 60; ++i) {
    const S schedule = std::vector<S>{S::gpipe, S::interleaved, S::zero_bubble, S::zbv,
                                      S::dual_pipe_v}[static_cast<std::size_t>(draw(0, 4))];
    const int ranks = draw(2, 5), micro = draw(1, 12), chunks = usual_chunks(schedule);
    if (!illegal(schedule, ranks, micro, chunks).empty()) continue;
    std::vector<ToyUnit> units;
    std::vector<std::pair<double, double>> times;
    for (int stage = 0; stage < ranks * chunks; ++stage) {
      times.emplace_back(draw(1, 9) * kMs, draw(1, 9) * kMs);
      units.push_back({kMiB, times.back().first, 2 * times.back().second});
    }
    const double step = step_of(pipeline(schedule, ranks, micro, chunks), toy(units, kOptimizer),
                                free_network(ranks));
    const double expected_step =
        listed(pipeline_order(schedule, ranks, micro, chunks), times, kOptimizer / ranks);
    BOOST_CHECK_CLOSE(step, expected_step, kPercent);
    ++compared;
  }
  BOOST_TEST(compared > 20);
}

BOOST_AUTO_TEST_CASE(a_pipeline_drains_between_its_rounds) {
  const std::vector<ToyUnit> units(3, {kMiB, kMs, 2 * kMs});
  Layout layout = pipeline(PipelineSchedule::one_f_one_b, 3, 8);
  const auto step = [&] { return step_of(layout, toy(units, 0), free_network(3)); };
  BOOST_CHECK_CLOSE(step(), (8 + 2) * 3 * kMs, kPercent);
  layout.gradient_accumulation = 2;
  BOOST_CHECK_CLOSE(step(), 2 * (4 + 2) * 3 * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(folded_replicas_stand_for_all) {
  const Layout layout = pipeline(PipelineSchedule::one_f_one_b, 2, 4);
  const Cluster cluster = star_cluster(16);
  const Schedule whole = schedule_of({kRingMegatron, layout}, stages(2), cluster);
  std::string why_not;
  const auto folded = fold(whole, cluster, why_not);
  BOOST_REQUIRE_MESSAGE(folded, why_not);
  BOOST_TEST(folded->schedule.ranks.size() == 4u);
  validate(folded->schedule);
  BOOST_CHECK_CLOSE(play(folded->schedule, folded->cluster).end.value(),
                    play(whole, cluster).end.value(), kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
