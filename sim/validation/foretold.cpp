#include "validation/foretold.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/json/json_text.hpp"
#include "convergence/forecast.hpp"
#include "convergence/observation.hpp"

namespace rehearse::inline validation {
namespace {

using Json = nlohmann::json;

Ends<double> range_of(const Json& bounds) {
  return {bounds.at(0).get<double>(), bounds.at(1).get<double>()};
}

/// The interval after so many samples: between points of the forecast curve, linear in
/// ln(samples); nothing before its first.
std::optional<Ends<double>> interval_at(const Json& curve, double samples) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const double left = curve[i - 1].at("samples"), right = curve[i].at("samples");
    constexpr double kRounding = 1e-9;
    if (samples < left || samples > right * (1 + kRounding)) continue;
    const double part = std::log(samples / left) / std::log(right / left);
    const Ends<double> a = range_of(curve[i - 1].at("accuracy_interval"));
    const Ends<double> b = range_of(curve[i].at("accuracy_interval"));
    return Ends<double>{std::lerp(a.low, b.low, part), std::lerp(a.high, b.high, part)};
  }
  return std::nullopt;
}

Foretold forecast_of(const LearnedRun& run, const Json& accuracy) {
  Foretold told{.by = run.forecast_by,
                .means = "forecast",
                .failed = accuracy.at("verdict") == to_string(Verdict::diverges),
                .accuracy = accuracy.at("accuracy"),
                .mean = accuracy.at("accuracy_mean").get<double>(),
                .odds = SaidOdds{.verdict = accuracy.at("verdict"),
                                 .failure_probability = accuracy.at("failure_probability")},
                .interval = range_of(accuracy.at("accuracy_interval"))};
  for (const CurvePoint& point : run.real.points) {
    const auto interval = interval_at(accuracy.at("curve"), static_cast<double>(point.samples));
    if (!interval) continue;
    ++told.points;
    if (interval->low <= point.test_accuracy && point.test_accuracy <= interval->high)
      ++told.points_inside;
  }
  return told;
}

}  // namespace

std::vector<Foretold> foretold(const LearnedRun& run, const std::string& report) {
  std::vector<Foretold> all;
  for (const RecordedReplay& replay : run.replays) {
    all.push_back({.by = replay.by,
                   .failed = has_failed(replay.curve, run.trained_error()),
                   .accuracy = replay.curve.points.back().test_accuracy});
  }
  if (!run.model) return all;
  const Json accuracy = parsed_json(report).value("accuracy", Json());
  if (!accuracy.is_object()) throw InputError("error: the report has no accuracy");
  all.push_back(forecast_of(run, accuracy));
  return all;
}

}  // namespace rehearse::inline validation
