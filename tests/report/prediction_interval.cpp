// How half-widths become the interval of a number.
#include "report/prediction_interval.hpp"
#include "report/run_facts.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(prediction_interval_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);

Headline of(double step, double rate = 0, double staleness = 0) {
  return {Seconds(step), rate, staleness};
}

double step_of(const Headline& figures) { return figures.step_time.value(); }

BOOST_AUTO_TEST_CASE(without_anything_in_doubt_an_interval_is_a_point) {
  const Ends<double> bounds = log_bounds(2, {}, step_of, 0);
  BOOST_TEST(bounds.low == 2);
  BOOST_TEST(bounds.high == 2);
}

BOOST_AUTO_TEST_CASE(independent_sources_add_up_in_quadrature) {
  const auto off = [](double half) {
    return ErrorSource{"", of(std::exp(-half)), of(1), of(std::exp(half))};
  };
  const Ends<double> bounds = log_bounds(10, {off(0.3)}, step_of, 0.4);
  BOOST_TEST(bounds.high == 10 * std::exp(0.5), kExact);
  BOOST_TEST(bounds.low == 10 * std::exp(-0.5), kExact);
}

BOOST_AUTO_TEST_CASE(each_end_is_by_itself) {
  // Hidden communication: faster saves nothing, slower surfaces.
  const Ends<double> bounds = log_bounds(1, {{"communication", of(1), of(1), of(1.5)}}, step_of, 0);
  BOOST_TEST(bounds.low == 1);
  BOOST_TEST(bounds.high == 1.5, kExact);
}

BOOST_AUTO_TEST_CASE(two_means_of_chance_differ_by_students_t) {
  // Standard deviation 1 of 1, 2, 3; t of 95 % with 2 degrees is 2.91999.
  BOOST_TEST(mean_error({1, 2, 3}, 9) == 2.919985580 * std::sqrt(2.0 / 3),
             boost::test_tools::tolerance(1e-8));
  BOOST_TEST(mean_error({4, 4, 4}, 9) == 0);
  // One value says nothing of its spread: the jitter's own stands for it.
  BOOST_TEST(mean_error({1}, 0.1) == 1.6449 * std::sqrt(2) * 0.1, kExact);
  BOOST_TEST(mean_error({1}) == 0);
}

BOOST_AUTO_TEST_CASE(what_takes_as_long_as_the_samples_has_their_interval) {
  Report report;
  report.step_time = Seconds(1);
  report.samples_per_s = 100;
  report.epoch_time = Seconds(50);
  report.cost = CostReport{.gpu_hours = 8, .usd = 20};
  report.staleness.emplace();
  report.staleness->mean = 1;
  const Scenario scenario;
  const Schedule schedule;
  const Trace trace;
  const RunFacts facts{
      .scenario = scenario,
      .schedule = schedule,
      .trace = trace,
      .fidelity = "",
      .provenance = "",
      .assumptions = {},
      .outside_calibration = {},
      .error_sources = {{"compute", of(0.5, 200, 4), of(1, 100, 1), of(1.25, 80, 0.5)}}};
  report.intervals = intervals_of(report, facts, {});
  BOOST_TEST(interval_of(report, "step_time_s")->high == 1.25, kExact);
  BOOST_TEST(interval_of(report, "samples_per_s")->low == 80, kExact);
  BOOST_TEST(interval_of(report, "samples_per_s")->high == 200, kExact);
  BOOST_TEST(interval_of(report, "epoch_time_s")->low == 25, kExact);
  BOOST_TEST(interval_of(report, "epoch_time_s")->high == 62.5, kExact);
  BOOST_TEST(interval_of(report, "cost.gpu_hours")->high == 10, kExact);
  BOOST_TEST(interval_of(report, "cost.usd")->low == 10, kExact);
  // Staleness changes by differences, whichever end they come from.
  BOOST_TEST(interval_of(report, "staleness.mean")->low == 0.5, kExact);
  BOOST_TEST(interval_of(report, "staleness.mean")->high == 4, kExact);
  BOOST_TEST(!interval_of(report, "train_time_s"));
  BOOST_TEST(!interval_of(report, "memory.allocated_peak_bytes"));
}

BOOST_AUTO_TEST_CASE(errors_of_memory_are_independent) {
  const auto half_widths = [](const MemoryMechanisms& mechanisms) {
    Report report;
    report.step_time = Seconds(1);
    report.samples_per_s = 1;
    report.memory.emplace();
    report.memory->allocated_peak = Bytes(100);
    report.memory->reserved_peak = Bytes(110);
    report.memory->context = Bytes(10);
    report.memory->communicators = Bytes(5);
    report.memory_mechanisms = mechanisms;
    const Scenario scenario;
    const Schedule schedule;
    const Trace trace;
    const RunFacts facts{.scenario = scenario,
                         .schedule = schedule,
                         .trace = trace,
                         .fidelity = "",
                         .provenance = "",
                         .assumptions = {},
                         .outside_calibration = {}};
    report.intervals = intervals_of(report, facts, {});
    const auto width = [&](const char* key, double best) {
      const Ends<double> ends = *interval_of(report, key);
      BOOST_TEST(ends.high * ends.low == best * best, kExact);
      return std::log(ends.high / best);
    };
    return std::pair(width("memory.allocated_peak_bytes", 100), width("memory.used_bytes", 125));
  };
  const auto exact = half_widths({});
  BOOST_TEST(exact.first == 0);
  BOOST_TEST(exact.second == 0);
  const auto [allocated, used] =
      half_widths({.allocated = {{"activations", 0.8, 0.1}, {"this software's memory", 1, 0.06}},
                   .used = {{"contexts and communicators", 0.5, 0.1}}});
  BOOST_TEST(allocated == 0.1, kExact);
  BOOST_TEST(used == 0.05, kExact);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
