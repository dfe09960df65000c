// Real asynchronous runs on MNIST digits beside forecasts that never saw their number of workers:
// tests/validation/staleness.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <iterator>
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

/// Replays of simulated runs whose names begin so.
ConvergenceModel fitted_on(const std::vector<std::string>& begins) {
  std::vector<std::filesystem::path> curves;
  for (const std::string& begin : begins)
    std::ranges::copy(recorded(begin, ".simulated.json"), std::back_inserter(curves));
  return fit_curves(curves).model;
}

/// What a model says of real runs whose names begin so.
Comparison compare(const ConvergenceModel& model, const std::string& asked) {
  Comparison result;
  for (const std::filesystem::path& file : recorded(asked, ".real.json")) {
    const std::string name = file.filename().string();
    BOOST_TEST_CONTEXT(name) {
      const Observation real = observe(read_curve(file), file.string());
      const Forecast forecast(model, real.setting);
      BOOST_TEST((forecast.verdict() == Verdict::diverges) == real.failed);
      if (!real.failed) compare_points(forecast, real, name.substr(0, name.rfind('_')), result);
    }
  }
  return result;
}

}  // namespace

// Fitted on 1, 2 and 3 workers.
BOOST_AUTO_TEST_CASE(
    real_runs_of_more_workers_end_within_2_points_of_the_forecast_and_diverge_as_it_says) {
  const ConvergenceModel model = fitted_on({"fit1_", "fit2_", "fit3_"});
  for (const char* asked : {"w3_", "w4_easy", "w4_hurts", "w4_unequal", "w4_diverges", "w5_"}) {
    const Comparison result = compare(model, asked);
    for (const auto& [setting, off] : result.off) {
      const double mean = std::accumulate(off.begin(), off.end(), 0.0) / off.size();
      BOOST_TEST_MESSAGE(
          setting << ": forecast less real, mean of " << off.size() << " seeds " << 100 * mean
                  << " points, largest "
                  << 100 * std::ranges::max(off, {}, [](double x) { return std::abs(x); }));
      BOOST_TEST_CONTEXT(setting) { BOOST_TEST(std::abs(mean) < 0.02); }
    }
    BOOST_TEST_MESSAGE(asked << ": ends inside " << result.finals_inside << " of " << result.finals
                             << ", points " << result.points_inside << " of " << result.points);
  }
}
