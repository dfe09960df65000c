// Real asynchronous runs on MNIST digits beside forecasts that never saw their number of workers:
// tests/validation/staleness.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/sources.hpp"
#include "convergence/curve.hpp"
#include "convergence/fitted_curves.hpp"
#include "convergence/forecast.hpp"

using namespace rehearse;

namespace {

/// Recorded curves by the beginning and the end of their names, in order.
std::vector<std::filesystem::path> recorded(const std::string& begin, const std::string& end) {
  const std::filesystem::path folder = source_folder() / "tests/validation/staleness/recorded";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

struct Comparison {
  /// Of the runs that trained, by setting ("w4_hurts"): how far each ends from its forecast.
  std::map<std::string, std::vector<double>> off;
  double finals_inside = 0, finals = 0, points_inside = 0, points = 0;
};

void compare_points(const Forecast& forecast, const Observation& real, const std::string& setting,
                    Comparison& result) {
  for (const ErrorPoint& point : real.points) {
    const double accuracy = 1 - point.error;
    const Estimate told = forecast.accuracy_after(point.update);
    const bool inside = told.low <= accuracy && accuracy <= told.high;
    result.points_inside += inside;
    result.points += 1;
    if (&point != &real.points.back()) continue;
    result.off[setting].push_back(told.value - accuracy);
    result.finals_inside += inside;
    result.finals += 1;
  }
}

/// What forecasts from replays of simulated runs of `fitted` workers say of real ones of `asked`.
Comparison compare(const std::string& fitted, const std::string& asked) {
  const ConvergenceModel model = fit_curves(recorded(fitted, ".simulated.json")).model;
  Comparison result;
  for (const std::filesystem::path& file : recorded(asked, ".real.json")) {
    const std::string name = file.filename().string();
    BOOST_TEST_CONTEXT(name) {
      const Observation real = observe(read_curve(file), file.string());
      const Forecast forecast(model, real.setting);
      BOOST_TEST((forecast.verdict() == Verdict::diverges) == real.failed);
      BOOST_TEST((forecast.verdict() == Verdict::converges) == !real.failed);
      if (!real.failed) compare_points(forecast, real, name.substr(0, name.rfind('_')), result);
    }
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(
    real_runs_of_other_workers_end_within_2_points_of_the_forecast_and_diverge_as_it_says) {
  for (const auto& [fitted, asked] : {std::pair("w3", "w4"), std::pair("w4", "w3")}) {
    BOOST_TEST_CONTEXT("fitted on " << fitted) {
      const Comparison result = compare(fitted, asked);
      BOOST_TEST(result.finals >= 6);
      for (const auto& [setting, off] : result.off) {
        const double mean = std::accumulate(off.begin(), off.end(), 0.0) / off.size();
        BOOST_TEST_MESSAGE(
            setting << ": forecast less real, mean of " << off.size() << " seeds " << 100 * mean
                    << " points, largest "
                    << 100 * std::ranges::max(off, {}, [](double x) { return std::abs(x); }));
        BOOST_TEST_CONTEXT(setting) { BOOST_TEST(std::abs(mean) < 0.02); }
      }
      BOOST_TEST(result.finals_inside == result.finals);
      BOOST_TEST(result.points_inside >= 0.85 * result.points);
    }
  }
}
