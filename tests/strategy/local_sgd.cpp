// Local SGD and synchronous warm-up against closed forms. P: bytes of parameters; C: a training
// step's forward and backward; O: its optimizer.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "convergence/update_file.hpp"
#include "predict/server_updates.hpp"
#include "report/report.hpp"
#include "report/update_log.hpp"
#include "schedule/jitter.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(local_sgd_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kC = 20 * kMs, kO = 1.5 * kMs, kApply = kP / 2e9;
/// What the servers apply.
constexpr BytesPerSecond kRate{2e9};

Toy two_units() { return toy({{kP / 2, 3 * kMs, 6 * kMs}, {kP / 2, 4 * kMs, 7 * kMs}}, kO); }
double way(double load) { return kNicLatency + load * kP / kNic; }

LocalSgd ring(int period) { return {.period = period, .algorithm = CollectiveAlgorithm::ring}; }

double sent(const Trace& trace) {
  double bytes = 0;
  for (const double of_kind : trace.traffic.bytes) bytes += of_kind;
  return bytes;
}

// ---- Local SGD with all_reduce ----

BOOST_DATA_TEST_CASE(a_period_is_its_steps_and_one_all_reduce,
                     data::make({1, 2, 8}) * data::make({2, 5}), period, workers) {
  const double round = period * (kC + kO) + all_reduce_time(workers, kP);
  const Trace trace = trace_of(ring(period), two_units(), star_cluster(workers), 3);
  for (std::size_t k = 0; k < 3; ++k)
    BOOST_CHECK_CLOSE(trace.iteration_end[0][k].value(), (k + 1.0) * round, kPercent);
}

BOOST_AUTO_TEST_CASE(alone_it_averages_with_nobody) {
  BOOST_CHECK_CLOSE(step_of(ring(4), two_units(), star_cluster(1)), 4 * (kC + kO), kPercent);
}

BOOST_DATA_TEST_CASE(for_as_many_samples_ddp_sends_period_times_as_much, data::make({1, 2, 8, 50}),
                     period) {
  const Cluster cluster = star_cluster(4);
  const TorchDdp ddp{.algorithm = CollectiveAlgorithm::ring};
  const auto steps = static_cast<std::uint32_t>(period);
  BOOST_CHECK_CLOSE(sent(trace_of(ddp, two_units(), cluster, steps)),
                    period * sent(trace_of(ring(period), two_units(), cluster)), kPercent);
}

BOOST_AUTO_TEST_CASE(every_training_step_has_a_jitter_of_its_own) {
  // Two workers: a round takes the sum of the slower one's draws, which spread less than one draw.
  constexpr int kPeriod = 4;
  const Cluster cluster = star_cluster(2);
  Schedule schedule = schedule_of(ring(kPeriod), two_units(), cluster, 3);
  schedule.jitter = {.distribution = Jitter::Distribution::lognormal, .cv = 0.5};
  double expected = 0;
  for (std::uint32_t k = 0; k < 3; ++k) {
    double slower = 0;
    for (const std::size_t rank : {0, 1}) {
      double sum = 0;
      for (std::uint32_t step = 0; step < kPeriod; ++step)
        sum += compute_factor(schedule, RankId(rank), k * kPeriod + step) * (kC + kO);
      slower = std::max(slower, sum);
    }
    expected += slower + all_reduce_time(2, kP);
  }
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(a_worker_that_sleeps_does_so_once_a_period) {
  const Cluster cluster = star_cluster(2);
  Schedule schedule = schedule_of(ring(3), two_units(), cluster, 2);
  schedule.ranks[1].delay = Seconds(0.05);
  const double round = 0.05 + 3 * (kC + kO) + all_reduce_time(2, kP);
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), 2 * round, kPercent);
}

BOOST_AUTO_TEST_CASE(its_log_says_that_all_average_in_every_round) {
  const Cluster cluster = star_cluster(3);
  const LocalSgd options = ring(4);
  const Trace trace = trace_of(options, two_units(), cluster, 5);
  const RunUpdates run = averaging_updates(trace, options, 3, 1);
  BOOST_TEST(run.mitigation.local_steps == 4U);
  BOOST_TEST(!run.mitigation.outer);
  BOOST_REQUIRE(run.updates.size() == 15U);
  for (std::size_t i = 0; i < run.updates.size(); ++i) {
    const AppliedUpdate& update = run.updates[i];
    BOOST_TEST(update.worker == i % 3);
    BOOST_TEST(update.iteration == i / 3);
    BOOST_TEST(update.version_applied == i / 3);
    BOOST_TEST(update.staleness() == 0U);
    BOOST_TEST(update.applied.value() == trace.iteration_end[0][i / 3].value());
  }
}

// ---- Local steps between a pull and a push ----

BOOST_DATA_TEST_CASE(through_a_server_a_round_is_its_steps_and_both_ways,
                     data::make({2, 8}) * data::make({1, 3}), local, workers) {
  const double round = 2 * way(workers) + local * (kC + kO) + workers * kApply;
  const ParameterServer options{.apply_rate = kRate, .local_steps = local};
  const Trace trace = trace_of(options, two_units(), server_cluster(workers), 3);
  BOOST_CHECK_CLOSE(trace.end.value(), 3 * round, kPercent);
}

BOOST_AUTO_TEST_CASE(one_local_step_is_the_server_s_own_schedule) {
  const Cluster cluster = server_cluster(3);
  for (const bool layerwise : {false, true}) {
    ParameterServer options{.staleness = std::nullopt, .layerwise = layerwise};
    const double without = trace_of(options, two_units(), cluster, 4).end.value();
    options.local_steps = 1;
    BOOST_TEST(trace_of(options, two_units(), cluster, 4).end.value() == without);
  }
}

// ---- A sample of the workers ----

BOOST_DATA_TEST_CASE(a_round_of_a_sample_is_that_of_so_many_workers, data::make({1, 2, 5}),
                     sampled) {
  const ParameterServer options{.apply_rate = kRate, .local_steps = 3, .sampled_workers = sampled};
  const double round = 2 * way(sampled) + 3 * (kC + kO) + sampled * kApply;
  constexpr std::uint32_t kRoundsPlayed = 40;
  const Cluster cluster = server_cluster(5);
  const Schedule schedule = schedule_of(options, two_units(), cluster, kRoundsPlayed);
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(trace.end.value(), kRoundsPlayed * round, kPercent);
  // Each round averages so many different workers, and in the long run each takes part as often.
  const RunUpdates run = server_updates(schedule, trace, options, 0);
  BOOST_REQUIRE(run.updates.size() == kRoundsPlayed * static_cast<std::size_t>(sampled));
  std::vector<int> rounds_of(5);
  for (const AppliedUpdate& update : run.updates) {
    BOOST_TEST(update.staleness() == 0U);
    BOOST_TEST(update.version_applied == update.iteration);
    BOOST_TEST(participants(schedule, static_cast<std::uint32_t>(update.iteration))[update.worker]);
    ++rounds_of[update.worker];
  }
  for (const int rounds : rounds_of) BOOST_TEST(std::abs(rounds - 8 * sampled) <= 8);
}

BOOST_AUTO_TEST_CASE(a_slow_worker_slows_only_the_rounds_that_draw_it) {
  constexpr std::uint32_t kRoundsPlayed = 30;
  const ParameterServer options{.apply_rate = kRate, .sampled_workers = 2};
  const Cluster cluster = server_cluster(4);
  Schedule schedule = schedule_of(options, two_units(), cluster, kRoundsPlayed);
  schedule.ranks[3].slowdown *= 10;
  double expected = 0;
  for (std::uint32_t k = 0; k < kRoundsPlayed; ++k) {
    const double slow = way(2) + 10 * kC + way(1) + kApply, like = 2 * way(2) + kC + 2 * kApply;
    expected += participants(schedule, k)[3] ? slow : like;
  }
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), expected, kPercent);
}

// ---- Synchronous warm-up ----

struct Played {
  Schedule schedule;
  Trace trace;
};

Played play_server(const ParameterServer& options, int workers, std::uint32_t iterations) {
  const Cluster cluster = server_cluster(workers);
  Played played{schedule_of(options, two_units(), cluster, iterations), {}};
  played.trace = play(played.schedule, cluster);
  return played;
}

constexpr std::uint32_t kRounds = 4, kAfter = 6;

/// When a worker ended each iteration.
std::vector<double> ends_of(const Played& played, std::size_t worker) {
  std::vector<double> ends;
  for (const Seconds end : played.trace.iteration_end[worker]) ends.push_back(end.value());
  return ends;
}

BOOST_DATA_TEST_CASE(the_rounds_of_a_warm_up_are_the_synchronous_server_s,
                     data::make({1, 2, 5}) * data::make({false, true}), workers, layerwise) {
  const Played warmed = play_server({.staleness = std::nullopt,
                                     .apply_rate = kRate,
                                     .layerwise = layerwise,
                                     .warmup_rounds = kRounds},
                                    workers, kRounds + kAfter);
  const Played synchronous =
      play_server({.staleness = 0, .apply_rate = kRate, .layerwise = layerwise}, workers, kRounds);
  for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w)
    for (std::size_t k = 0; k < kRounds; ++k)
      BOOST_CHECK_CLOSE(ends_of(warmed, w)[k], ends_of(synchronous, w)[k], kPercent);
}

/// When the first worker ended an iteration, the second, and so on: who of like workers that arrive
/// together is served first is a matter of rounding.
std::vector<double> sorted_ends(const Played& played, int workers, std::size_t iteration) {
  std::vector<double> ends;
  for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w)
    ends.push_back(ends_of(played, w)[iteration]);
  std::ranges::sort(ends);
  return ends;
}

BOOST_DATA_TEST_CASE(after_its_warm_up_a_server_is_an_asynchronous_one, data::make({1, 2, 5}),
                     workers) {
  // The last round's end is to the workers what the beginning is.
  const Played warmed =
      play_server({.staleness = std::nullopt, .apply_rate = kRate, .warmup_rounds = kRounds},
                  workers, kRounds + kAfter);
  const double begun =
      play_server({.staleness = 0, .apply_rate = kRate}, workers, kRounds).trace.end.value();
  const Played asynchronous =
      play_server({.staleness = std::nullopt, .apply_rate = kRate}, workers, kAfter);
  for (std::size_t k = 0; k < kAfter; ++k) {
    const auto ends = sorted_ends(warmed, workers, kRounds + k);
    const auto expected = sorted_ends(asynchronous, workers, k);
    for (std::size_t i = 0; i < ends.size(); ++i)
      BOOST_CHECK_CLOSE(ends[i], begun + expected[i], kPercent);
  }
}

BOOST_DATA_TEST_CASE(a_warm_up_has_no_staleness_and_what_follows_has_its_own, data::make({2, 5}),
                     workers) {
  const auto updates = [&](int rounds, std::uint32_t iterations) {
    const Played played =
        play_server({.staleness = std::nullopt, .warmup_rounds = rounds}, workers, iterations);
    return update_log(played.schedule, played.trace);
  };
  const auto log = updates(kRounds, kRounds + kAfter), plain = updates(0, kAfter);
  const std::size_t in_rounds = kRounds * static_cast<std::size_t>(workers);
  BOOST_REQUIRE(log.size() == in_rounds + plain.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    const bool warm = i < in_rounds;
    BOOST_TEST(log[i].staleness == (warm ? 0U : plain[i - in_rounds].staleness));
    BOOST_TEST(log[i].version_read == (warm ? i / static_cast<std::size_t>(workers)
                                            : kRounds + plain[i - in_rounds].version_read));
  }
}

BOOST_AUTO_TEST_CASE(the_log_of_a_warm_up_is_what_a_replay_reads) {
  const ParameterServer options{
      .staleness = 2, .warmup_rounds = static_cast<int>(kRounds), .local_steps = 3};
  const Played played = play_server(options, 3, kRounds + kAfter);
  const RunUpdates run = server_updates(played.schedule, played.trace, options, 0);
  BOOST_TEST(to_csv(run).starts_with(
      "# rehearse.updates/1 workers=3 warmup=0 staleness_bound=2 warmup_rounds=4 local_steps=3\n"));
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < run.updates.size(); ++i) {
    const bool first_of_round = i < 3 * kRounds && i % 3 == 0;
    if (first_of_round || i >= 3 * kRounds) ++next;
    BOOST_TEST(run.updates[i].version_applied == next - 1);
    BOOST_TEST(run.updates[i].version_read <= run.updates[i].version_applied);
    if (i < 3 * kRounds) BOOST_TEST(run.updates[i].worker == i % 3);
  }
}

BOOST_AUTO_TEST_CASE(a_warm_up_as_long_as_the_run_is_the_synchronous_run) {
  const Played warmed =
      play_server({.staleness = 3, .apply_rate = kRate, .warmup_rounds = 50}, 4, 5);
  const Played synchronous = play_server({.staleness = 0, .apply_rate = kRate}, 4, 5);
  BOOST_CHECK_CLOSE(warmed.trace.end.value(), synchronous.trace.end.value(), kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
