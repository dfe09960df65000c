// ResNet-32 on CIFAR-10 with 8 workers of 128 samples, synchronous (bsp), asynchronous (asp) and
// from the one to the other (b5-a95: 5 % in step, then stale): cake-lab/Sync-Switch at 09af0864,
// Apache-2.0, data/cifar10_res32 (Li et al., "Sync-Switch: Hybrid parameter synchronization for
// distributed deep learning", ICDCS 2021). Rates fall at half and three quarters of the samples.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "convergence/forecast.hpp"
#include "convergence/rate_course.hpp"
#include "rows.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(sync_switch)
namespace {

constexpr double kWorkers = 8, kBatch = 128, kAllSamples = 8000 * kWorkers * kBatch;
// Of a batch of a worker. No curve tells it, and only ratios matter: the curvature is fitted.
constexpr double kRate = 0.01;
const std::vector<RateChange> kDecay = {{0.5, 0.1}, {0.75, 0.01}};

/// Where the other protocol begins, and whether the first is the synchronous one.
struct SetUp {
  double share;
  bool synchronous_first;
};
const std::map<std::string, SetUp> kSetUps = {{"bsp", {1, true}},        {"asp", {1, false}},
                                              {"b50-a50", {0.5, true}},  {"a50-b50", {0.5, false}},
                                              {"b15-a85", {0.15, true}}, {"b5-a95", {0.05, true}},
                                              {"b6-a94", {0.06, true}}};

TrainingSetting setting_of(const SetUp& set_up) {
  const auto part = [&](double end, bool in_step, double times) {
    const double together = in_step ? kWorkers : 1;
    return TrainingStretch{.samples = end * kAllSamples,
                           .learning_rate = kRate * times * together,
                           .samples_per_update = kBatch * together,
                           .staleness = in_step ? 0 : kWorkers - 1};
  };
  std::set<double> ends = {0.5, 0.75, 1, set_up.share};
  std::vector<TrainingStretch> stretches;
  double begin = 0;
  for (const double end : ends) {
    const double times = begin < 0.5 ? 1 : begin < 0.75 ? 0.1 : 0.01;
    stretches.push_back(part(end, (end <= set_up.share) == set_up.synchronous_first, times));
    begin = end;
  }
  TrainingSetting setting;
  setting.momentum = 0.9;
  return with_stretches(setting, stretches);
}

struct Run {
  std::string set_up;
  std::vector<ErrorPoint> points;  // by updates
  double end = 0;                  // accuracy at the last point
};

std::vector<Run> recorded_runs() {
  std::ifstream file(data_folder() / "tests/convergence/sync_switch.csv");
  std::map<std::pair<std::string, std::string>, Run> runs;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = csv_cells(line);
    Run& run = runs[{cells.at(0), cells.at(1)}];
    run.set_up = cells.at(0);
    const double step = std::stod(cells.at(2)), accuracy = std::stod(cells.at(3));
    if (step > 0) run.points.push_back({step, 1 - accuracy, 0});
    run.end = accuracy;
  }
  std::vector<Run> list;
  for (auto& [name, run] : runs) list.push_back(std::move(run));
  return list;
}

/// Points in eight stretches of equal width in ln, as observe() has them.
Observation observation_of(const Run& run) {
  Observation seen{.setting = setting_of(kSetUps.at(run.set_up)),
                   .points = run.points,
                   .updates = run.points.back().update,
                   .initial_error = 0.9};
  std::map<int, int> counts;
  const double first = std::log(run.points.front().update), span = std::log(seen.updates) - first;
  const auto stretch = [&](const ErrorPoint& point) {
    return std::min(7, static_cast<int>(8 * (std::log(point.update) - first) / span));
  };
  for (const ErrorPoint& point : seen.points) ++counts[stretch(point)];
  for (ErrorPoint& point : seen.points) point.share = 1.0 / counts[stretch(point)];
  return seen;
}

struct Ends {
  double mean = 0, error = 0;  // of the mean
};
std::map<std::string, Ends> ends_of(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<double>> all;
  for (const Run& run : runs) all[run.set_up].push_back(run.end);
  std::map<std::string, Ends> ends;
  for (const auto& [name, values] : all) {
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    for (const double value : values) squares += (value - mean) * (value - mean);
    const auto count = static_cast<double>(values.size());
    ends[name] = {mean, count > 1 ? std::sqrt(squares / (count - 1) / count) : 0.006};
  }
  return ends;
}

}  // namespace

// The bounds: order of protocols (tau >= 0.8 of those that runs tell apart), and accuracies
// within a point, with half of the set-ups fitted.
BOOST_AUTO_TEST_CASE(half_of_the_set_ups_tell_the_others) {
  const std::vector<Run> runs = recorded_runs();
  const std::set<std::string> fitted = {"bsp", "asp", "a50-b50"};
  std::vector<Observation> observations;
  for (const Run& run : runs)
    if (fitted.contains(run.set_up)) observations.push_back(observation_of(run));
  const ConvergenceModel model = fit_convergence(observations, 0.07);
  const std::map<std::string, Ends> ends = ends_of(runs);
  std::map<std::string, double> told;
  for (const auto& [name, set_up] : kSetUps) {
    const TrainingSetting setting = setting_of(set_up);
    const Estimate<double> accuracy =
        Forecast(model, setting).accuracy_after(setting.updates_after(kAllSamples));
    told[name] = accuracy.value;
    BOOST_TEST_MESSAGE(fmt::format("{:<8} {:.2f} % (+-{:.2f}), told {:.2f} ({:.2f} to {:.2f}){}",
                                   name, 100 * ends.at(name).mean, 100 * ends.at(name).error,
                                   100 * accuracy.value, 100 * accuracy.low, 100 * accuracy.high,
                                   fitted.contains(name) ? ", fitted" : ""));
    BOOST_TEST(std::abs(accuracy.value - ends.at(name).mean) <= 0.01);
  }
  double agree = 0, pairs = 0;
  for (const auto& [a, one] : ends) {
    for (const auto& [b, other] : ends) {
      if (one.mean - other.mean <= 2 * std::hypot(one.error, other.error)) continue;
      agree += told[a] > told[b] ? 1 : -1;
      ++pairs;
    }
  }
  BOOST_TEST_MESSAGE(
      fmt::format("tau {:.2f} of {:.0f} pairs that the runs tell apart", agree / pairs, pairs));
  BOOST_TEST(agree / pairs >= 0.8);
}

// Staleness hurts early, while the rate is high: stale in the second half costs little, in the
// first as much as throughout.
BOOST_AUTO_TEST_CASE(a_course_is_that_of_its_parts) {
  const TrainingSetting stale{.staleness = constant_staleness(7),
                              .learning_rate = kRate,
                              .momentum = 0.9,
                              .samples_per_update = kBatch};
  const RateCourse course{.rates = kDecay, .synchronous_first = 0.05};
  const TrainingSetting setting = along(stale, course, kAllSamples);
  BOOST_TEST(setting.stretches.size() == 4);
  BOOST_TEST(setting.stretches[0].samples == 0.05 * kAllSamples);
  BOOST_TEST(setting.stretches[0].samples_per_update == kWorkers * kBatch);
  BOOST_TEST(setting.stretches[0].learning_rate == kWorkers * kRate);
  BOOST_TEST(setting.stretches[1].staleness == 7);
  BOOST_TEST(setting.stretches[3].learning_rate == 0.01 * kRate,
             boost::test_tools::tolerance(1e-12));
  const double updates = 0.05 * 8000 + 0.95 * 64000;
  BOOST_TEST(setting.updates_after(kAllSamples) == updates, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(setting.samples_after(updates) == kAllSamples, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(setting.samples_after(400) == 0.05 * kAllSamples, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_stretch_is_that_of_its_halves) {
  const LearningCurve curve = learning_curve_prior().mean;
  const CurveStretch whole{.effective_rate = 0.1, .batch = 1, .stale = {7, 0.3}, .updates = 400};
  CurveStretch half = whole;
  half.updates = 200;
  CurvePlace one, two;
  one.stretches = {whole};
  two.stretches = {half, half};
  BOOST_TEST(log_error(curve, one).value == log_error(curve, two).value,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(slopes_of_stretches_are_those_of_differences) {
  LearningCurve curve = learning_curve_prior().mean;
  CurvePlace place;
  place.stretches = {{.effective_rate = 0.8, .batch = 8, .stale = {0, 0.2}, .updates = 50},
                     {.effective_rate = 0.1, .batch = 1, .stale = {7, 0.4}, .updates = 300},
                     {.effective_rate = 0.01, .batch = 1, .stale = {7, 0.04}, .updates = 300}};
  const LearningCurve slope = log_error_slope(curve, place).slope;
  for (int i = 0; i < kLearningCurveParameters; ++i) {
    constexpr double kStep = 1e-5;
    LearningCurve above = curve, below = curve;
    above[i] += kStep;
    below[i] -= kStep;
    const double seen = (log_error(above, place).value - log_error(below, place).value) / 2 / kStep;
    BOOST_TEST_CONTEXT("parameter " << i) BOOST_TEST(std::abs(slope[i] - seen) < 1e-3);
  }
}

BOOST_AUTO_TEST_SUITE_END()
