// What an asynchronous run does in the long run, from traces whose long run is known.
#include "report/steady_state.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "report/anatomy.hpp"
#include "report/run_facts.hpp"
#include "report/update_log.hpp"
#include "toy.hpp"

using namespace toy;

BOOST_AUTO_TEST_SUITE(steady_state_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);

Trace empty_trace(std::size_t workers) {
  Trace trace;
  trace.open_ended = true;
  trace.recorded_ranks = workers + 1;
  trace.iteration_end.resize(workers + 1);
  return trace;
}

/// Appends iterations of one worker, back to back, until the time is over: each reads at its begin.
template <class Length>
void train(Trace& trace, std::size_t rank, double until, Length&& length) {
  double t = 0;
  for (std::uint32_t k = 0; t < until; ++k) {
    const double end = t + length(k);
    add_iteration(trace, rank, k, t, end - 2, end - 1, end);
    t = end;
  }
}

SteadyState state_of(const Schedule& schedule, const Trace& trace, std::uint32_t warmup = 1) {
  return steady_state(schedule, trace, computing_ranks(schedule), update_log(schedule, trace),
                      warmup);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_fast_and_a_slow_worker_are_one_stale_on_average) {
  // An iteration every 10 ms and one every 70: the slow one's updates are 7 stale, one in seven of
  // the fast one's is 1 stale, the mean is (7 + 7/7)/8 = 1, and 150 of the slow one's iterations
  // that the stretch holds do not spoil it.
  const Schedule schedule = server_schedule(2, 12);
  Trace trace = empty_trace(2);
  train(trace, 0, 14000, [](auto) { return 10; });
  train(trace, 1, 14000, [](auto k) { return k == 0 ? 75 : 70; });  // never at the same moment
  const SteadyState state = state_of(schedule, trace);
  BOOST_TEST(state.end.value() == 14, kExact);
  BOOST_TEST(state.begin.value() == 3.5, kExact);
  BOOST_TEST(state.rates[0] == 100, kExact);
  BOOST_TEST(state.rates[1] == 1000.0 / 70, kExact);
  BOOST_TEST(state.slowest == 150, kExact);
  BOOST_TEST(state.staleness == 1, boost::test_tools::tolerance(0.01));
  BOOST_TEST(state.rate_error < 1e-9);
  BOOST_TEST(state.reached);
}

BOOST_AUTO_TEST_CASE(few_iterations_of_the_slowest_worker_are_not_enough) {
  const Schedule schedule = server_schedule(2, 3);
  Trace trace = empty_trace(2);
  train(trace, 0, 490, [](auto) { return 10; });
  train(trace, 1, 490, [](auto) { return 70; });
  BOOST_TEST(!is_steady(schedule, trace, 1));
}

BOOST_AUTO_TEST_CASE(what_comes_before_the_warm_up_does_not_count) {
  // A first iteration of a second, then 10 ms each.
  const Schedule schedule = server_schedule(2, 12);
  Trace trace = empty_trace(2);
  for (std::size_t w = 0; w < 2; ++w)
    train(trace, w, 2000, [](auto k) { return k == 0 ? 1000 : 10; });
  const SteadyState state = state_of(schedule, trace);
  BOOST_TEST(state.begin.value() == 1, kExact);
  BOOST_TEST(state.rates[0] == 100, kExact);
  // The same where the first rounds are in step.
  Schedule in_step = schedule;
  in_step.warmup_rounds = 51;
  BOOST_TEST(state_of(in_step, trace).begin.value() == 1.5, kExact);
}

BOOST_AUTO_TEST_CASE(a_pace_that_still_changes_is_not_steady) {
  const Schedule schedule = server_schedule(2, 12);
  Trace trace = empty_trace(2);
  for (std::size_t w = 0; w < 2; ++w) train(trace, w, 2000, [](auto k) { return 10 + 0.02 * k; });
  const SteadyState state = state_of(schedule, trace);
  BOOST_TEST(state.rate_error > 0.02);
  BOOST_TEST(!state.reached);
}

BOOST_AUTO_TEST_CASE(workers_that_a_bound_holds_together_must_go_at_one_pace) {
  Schedule schedule = server_schedule(2, 12);
  Trace trace = empty_trace(2);
  train(trace, 0, 10000, [](auto) { return 10; });
  train(trace, 1, 10000, [](auto k) { return k == 0 ? 13 : 12.5; });
  BOOST_TEST(is_steady(schedule, trace, 1));
  schedule.events.push_back({"applied", 2});
  schedule.programs[0].ops[0].awaits = {{EventId(0), 100}};
  schedule.programs[0].ops[3].signals = {EventId(0)};
  const SteadyState state = state_of(schedule, trace);
  BOOST_TEST(!state.reached);
  BOOST_TEST(state.rate_error == 1 - 80.0 / 90,
             boost::test_tools::tolerance(1e-3));  // at the slower one's pace in the end
  // What is awaited at the start only holds nobody together later.
  schedule.programs[0].ops[0].awaits = {{EventId(0), 1, 2}};
  BOOST_TEST(is_steady(schedule, trace, 1));
}

BOOST_AUTO_TEST_CASE(errors_are_those_of_chance) {
  // Exponential iterations of mean 10: n of them in a time of T have a deviation of 1/sqrt(n). In
  // 90 % of runs the truth is within what is said; of 200, as the worst estimate counts, in more.
  const Schedule schedule = server_schedule(2, 12);
  int inside = 0;
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    Trace trace = empty_trace(2);
    std::exponential_distribution<double> draw(1.0 / 6);
    for (std::size_t w = 0; w < 2; ++w)
      train(trace, w, 8000, [&](auto) { return 4 + draw(random); });
    const SteadyState state = state_of(schedule, trace);
    inside += std::abs((state.rates[0] + state.rates[1]) / 200 - 1) <= state.rate_error;
  }
  BOOST_TEST(inside >= 170);
  BOOST_TEST(inside <= 199);
}

BOOST_AUTO_TEST_CASE(a_report_of_an_open_ended_run_is_of_its_steady_state) {
  const Scenario toy_scenario = scenario_with(ParameterServer{.staleness = std::nullopt});
  const Schedule schedule = server_schedule(2, 2);
  Trace trace = empty_trace(2);
  train(trace, 0, 14000, [](auto) { return 10; });
  train(trace, 1, 14000, [](auto k) { return k == 0 ? 75 : 70; });  // never at the same moment
  const Report report = summarize({.scenario = toy_scenario,
                                   .schedule = schedule,
                                   .trace = trace,
                                   .fidelity = "flow",
                                   .provenance = "",
                                   .assumptions = {},
                                   .outside_calibration = {}});
  BOOST_TEST(report.samples_per_s == 8e3 * (1.0 / 10 + 1.0 / 70), kExact);
  BOOST_TEST(report.step_time.value() == 16 / report.samples_per_s, kExact);
  BOOST_TEST(report.worker_step_times[1].value() == 70e-3, kExact);
  BOOST_TEST(report.steady->reached);
  BOOST_TEST(report.staleness->mean == 1, boost::test_tools::tolerance(0.01));
  const Breakdown& parts = report.breakdown;
  BOOST_TEST((parts.compute + parts.exposed_communication + parts.idle).value() ==
                 report.step_time.value(),
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(report.outside_calibration.empty());
}

BOOST_AUTO_TEST_SUITE_END()
