#include "convergence/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <utility>

namespace rehearse::inline convergence {
namespace {

constexpr double kHeld = 0.9;  // by the interval, of all runs
constexpr double kMayFail = 0.05;
constexpr double kFails = 0.75;
/// By how much the power with which the slowing grows with the staleness (kStalenessPower) may
/// differ beyond the fit's staleness from what it was there. Chosen by the recorded runs of
/// tests/validation/staleness ("Limits"), for all networks.
constexpr double kPowerBeyond = 0.25;
constexpr double kFurthest = 1000;  // times the longest run: what is later is never

Doubt span(const char* what, double value, double least, double most) {
  const std::string fitted =
      least == most ? fmt::format("{:.4g}", most) : fmt::format("{:.4g} to {:.4g}", least, most);
  return {what, fmt::format("{} {:.4g}: fitted on {}", what, value, fitted)};
}

/// The integral of exp(middle + deviation z) over standard normal z from `from` to `to`.
double part_of_mean(double middle, double deviation, double from, double to) {
  const boost::math::normal normal;
  return std::exp(middle + deviation * deviation / 2) *
         (boost::math::cdf(normal, to - deviation) - boost::math::cdf(normal, from - deviation));
}

bool within(double value, double least, double most) {
  constexpr double kRounding = 1e-9;
  return value >= least * (1 - kRounding) && value <= most * (1 + kRounding);
}

}  // namespace

std::string to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::converges:
      return "converges";
    case Verdict::may_diverge:
      return "may diverge";
    case Verdict::diverges:
      return "diverges";
  }
  return "?";
}

TrainingSetting fresh(TrainingSetting setting) {
  setting.staleness = Staleness{};
  setting.order.clear();
  setting.course.clear();
  for (TrainingStretch& one : setting.stretches) one.staleness = 0;
  return setting;
}

Forecast::Forecast(const ConvergenceModel& model, TrainingSetting setting)
    : model_(model), setting_(std::move(setting)) {
  const Estimate<double> part = compensation_of(model, setting_);
  index_ = stability_indices(model, setting_, part.value);
  weak_index_ = strong_index_ = index_;
  failure_ = model.odds.probability(index_.failing);
  if (part.low == part.high) return;
  weak_index_ = stability_indices(model, setting_, part.low);
  strong_index_ = stability_indices(model, setting_, part.high);
  // The mean over a normal distribution by Gauss and Hermite, whose outer points lie at 1.73
  // deviations, the interval's ends at 1.64.
  failure_ = (4 * failure_ + model.odds.probability(weak_index_.failing) +
              model.odds.probability(strong_index_.failing)) /
             6;
}

Verdict Forecast::verdict() const {
  if (failure_ >= kFails) return Verdict::diverges;
  return failure_ >= kMayFail ? Verdict::may_diverge : Verdict::converges;
}

CurvePlace Forecast::place(double updates, const StabilityIndices& index) const {
  return place_of(setting_, index.slowing, updates, model_.reference_samples, model_.initial_error);
}

double Forecast::log_error_at(double updates) const {
  return log_error(model_.fitted.curve, place(updates, index_)).value;
}

double Forecast::unknown_variance(const CurvePlace& at) const {
  const double staleness = setting_.staleness.mean(), fitted = model_.domain.most_staleness;
  const double further = std::max(0.0, std::log((1 + staleness) / (1 + fitted)));
  const double off =
      kPowerBeyond * further * log_error_slope(model_.fitted.curve, at).slope[kLogStrength];
  return model_.fitted.unknown_variance(at) + off * off;
}

double Forecast::deviation_at(double updates, bool worse) const {
  const CurvePlace at = place(updates, index_);
  const LogError middle = log_error(model_.fitted.curve, at);
  const double spread = model_.spreads.at(middle.penalty);
  const double unknown = unknown_variance(at);
  const auto [least, most] =
      std::minmax({middle.value, log_error(model_.fitted.curve, place(updates, weak_index_)).value,
                   log_error(model_.fitted.curve, place(updates, strong_index_)).value});
  const double strength = (worse ? most - middle.value : middle.value - least) / kQuantile90;
  return std::hypot(model_.inflation * std::sqrt(spread * spread + unknown), strength);
}

std::pair<double, double> Forecast::interval_parts() const {
  const double trained = 1 - failure_;
  const double low = trained > kHeld ? (trained - kHeld) / 2 : (1 - kHeld) / 2;
  return {low, low + kHeld};
}

/// The error that `part` of all runs do not exceed. Failed ones lie above the others, evenly
/// between the least that one ended with and 1.
double Forecast::error_quantile(double updates, double part) const {
  const double trained = 1 - failure_;
  if (part >= trained) {
    const double among = (part - trained) / failure_;
    return model_.least_failed_error + among * (1 - model_.least_failed_error);
  }
  const double off = boost::math::quantile(boost::math::normal(), part / trained);
  const double error = std::exp(log_error_at(updates) + off * deviation_at(updates, off > 0));
  return std::min(model_.initial_error, error);
}

Estimate<double> Forecast::accuracy_after(double updates) const {
  const double untrained = 1 - model_.initial_error;
  // The curve's power law begins a floor above the untrained error.
  const double value = verdict() == Verdict::diverges
                           ? untrained
                           : std::max(untrained, 1 - std::exp(log_error_at(updates)));
  const auto [low, high] = interval_parts();
  const double best = error_quantile(updates, low);
  // A run may do better than the untrained parameters and fail yet.
  const double least = failure_ > 1 - high ? std::min(best, model_.least_failed_error) : best;
  return {value, 1 - error_quantile(updates, high), 1 - least};
}

double Forecast::mean_accuracy_after(double updates) const {
  if (verdict() == Verdict::diverges) return 1 - model_.initial_error;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double most = std::log(model_.initial_error);
  const double middle = std::min(log_error_at(updates), most);
  const double better = deviation_at(updates, false), worse = deviation_at(updates, true);
  const double cut = (most - middle) / worse;  // of errors, in deviations
  const boost::math::normal normal;
  return 1 - part_of_mean(middle, better, -kInfinity, 0) - part_of_mean(middle, worse, 0, cut) -
         model_.initial_error * boost::math::cdf(boost::math::complement(normal, cut));
}

/// When the error that `part` of the runs do not exceed has first fallen to `error`: where
/// staleness costs nothing at the start, it may rise above that again.
std::optional<double> Forecast::updates_until(double error, double part) const {
  if (model_.initial_error <= error) return 0;
  const auto reached = [&](double updates) { return error_quantile(updates, part) <= error; };
  constexpr double kStep = 1.1;  // what is held for less of the time until then may be missed
  const double last = kFurthest * std::max(1.0, model_.domain.most_updates);
  double low = 1e-3;
  double high = low;
  while (!reached(high)) {
    if (high >= last) return std::nullopt;
    low = std::exchange(high, std::min(last, high * kStep));
  }
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (reached(middle) ? high : low) = middle;
  }
  return high;
}

Estimate<std::optional<double>> Forecast::updates_to(double accuracy) const {
  const double error = 1 - accuracy;
  // The median of the runs that train, as in accuracy_after().
  const double middle = 0.5 * (1 - failure_);
  const std::optional<double> value =
      verdict() == Verdict::diverges ? std::nullopt : updates_until(error, middle);
  const auto [low, high] = interval_parts();
  return {value, updates_until(error, low), updates_until(error, high)};
}

std::vector<Doubt> Forecast::outside_calibration(double updates) const {
  const FittedDomain& domain = model_.domain;
  const TrainingSetting& asked = setting_;
  std::vector<Doubt> reasons;
  if (!within(asked.learning_rate, domain.least_rate, domain.most_rate))
    reasons.push_back(
        span("learning rate", asked.learning_rate, domain.least_rate, domain.most_rate));
  if (!within(asked.momentum, domain.least_momentum, domain.most_momentum))
    reasons.push_back(
        span("momentum", asked.momentum, domain.least_momentum, domain.most_momentum));
  if (!within(asked.samples_per_update, domain.least_samples, domain.most_samples))
    reasons.push_back(span("samples per update", asked.samples_per_update, domain.least_samples,
                           domain.most_samples));
  if (const double mean = asked.staleness.mean(); !within(mean, 0, domain.most_staleness))
    reasons.push_back(span("mean staleness", mean, 0, domain.most_staleness));
  if (const double lambda = asked.delay_compensation;
      asked.staleness.max() > 0 && !within(lambda, 0, domain.most_compensation))
    reasons.push_back(span("delay compensation", lambda, 0, domain.most_compensation));
  if (!within(updates, 0, domain.most_updates))
    reasons.push_back(span("updates", updates, 0, domain.most_updates));
  if (verdict() != Verdict::diverges && !within(index_.failing, 0, domain.most_index))
    reasons.push_back(span("stability index", index_.failing, 0, domain.most_index));
  return reasons;
}

}  // namespace rehearse::inline convergence
