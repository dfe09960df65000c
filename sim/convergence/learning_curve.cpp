#include "convergence/learning_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <unsupported/Eigen/AutoDiff>

namespace rehearse::inline convergence {
namespace {

constexpr double kMiddle = 30;  // of a training, in progress: where `strength` is the slowing's

/// With its slope along every parameter, exactly (Griewank, Walther, "Evaluating derivatives",
/// 2008, chapter 3).
using Dual = Eigen::AutoDiffScalar<LearningCurve>;

double value_of(double x) { return x; }
double value_of(const Dual& x) { return x.value(); }

/// What has no place in Eigen's: f(x), where f'(x) is given.
Dual chained(double value, double slope, const Dual& x) {
  return Dual(value, slope * x.derivatives());
}
double expm1(double x) { return std::expm1(x); }
Dual expm1(const Dual& x) { return chained(std::expm1(x.value()), std::exp(x.value()), x); }
double log1p(double x) { return std::log1p(x); }
Dual log1p(const Dual& x) { return chained(std::log1p(x.value()), 1 / (1 + x.value()), x); }
/// ln(1 + exp(x)), which is x where exp(x) is no number.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
Dual softplus(const Dual& x) {
  return chained(softplus(x.value()), 1 / (1 + std::exp(-x.value())), x);
}

template <class Number>
Number at_most(const Number& x, double most) {
  return value_of(x) > most ? Number(most) : x;
}

/// ((1 + t)^(1 - fading) - 1) / (1 - fading), with log = ln(1 + t).
template <class Log, class Number>
Number lost(const Log& log, const Number& fading) {
  const Number rest = (1 - fading) * log;
  if (std::abs(value_of(rest)) < 1e-9) return log * (1 + rest / 2);
  return expm1(rest) / (1 - fading);
}

/// The t of t + slowing ((1 + t)^(1 - fading) - 1) / (1 - fading) = progress, by Newton's method.
/// The left side grows with t and is concave, so that from below, where this starts, no step leads
/// too far; and each squares what is left, so that the last needs no further look.
double slowed(double progress, double slowing, double fading) {
  double t = progress / (1 + slowing);
  for (int i = 0; i < 50; ++i) {
    const double log = std::log1p(t);
    const double step =
        (progress - t - slowing * lost(log, fading)) / (1 + slowing * std::exp(-fading * log));
    t += step;
    if (std::abs(step) <= 1e-7 * t) break;
  }
  return t;
}

/// Its slope is that of one more step, whose length is 0.
Dual slowed(const Dual& progress, const Dual& slowing, const Dual& fading) {
  const double t = slowed(progress.value(), slowing.value(), fading.value());
  const double log = std::log1p(t);
  return t + (progress - t - slowing * lost(log, fading)) /
                 (1 + slowing.value() * std::exp(-fading.value() * log));
}

/// How many updates have had their whole effect: each has 1 - m^i of it after i of them.
double effective_updates(double updates, double momentum) {
  return updates - momentum * (1 - std::pow(momentum, updates)) / (1 - momentum);
}

/// The parameters: numbers, or such with a slope.
template <class Number>
using Parameters = std::array<Number, kLearningCurveParameters>;

/// Progress with fresh gradients, of which `updates` have had their whole effect.
template <class Number>
Number fresh_progress(const Parameters<Number>& curve, double rate, double batch, double updates) {
  using std::exp;
  const Number saturation = exp(curve[kLogSaturation] + curve[kBatchPower] * std::log(batch));
  return exp(curve[kLogScale]) * updates * rate / (1 + rate / saturation);
}

template <class Number>
Number fresh_progress(const Parameters<Number>& curve, const CurvePlace& place) {
  return fresh_progress(curve, place.effective_rate, place.batch,
                        effective_updates(place.updates, place.momentum));
}

/// Of updates that are so stale on average, where fresh ones would have made `progress` more;
/// `begun` is how far they had come before.
template <class Number>
Number stale_progress(const Parameters<Number>& curve, const StalePlace& stale, double spread_gain,
                      const Number& progress, const Number& begun = Number(0)) {
  using std::exp;
  using std::log;
  constexpr double kNearest = 0.98;     // to the edge
  constexpr double kWorstSlowing = 20;  // in ln, where exp() is still a number
  const Number curvature = exp(curve[kLogCurvature] - curve[kSpreadPower] * std::log(spread_gain));
  const Number index = at_most<Number>(curvature * stale.index, kNearest);
  if (value_of(index) <= 0) return begun + progress;
  const Number log_odds = log(index / (1 - index));
  const Number fading = softplus(Number(curve[kFading] + curve[kFadingByIndex] * log_odds));
  const Number log_slowing = curve[kLogStrength] + curve[kSteepness] * log_odds +
                             curve[kStalenessPower] * std::log((1 + stale.staleness) / 2) +
                             fading * std::log(kMiddle);
  const Number slowing = exp(at_most(log_slowing, kWorstSlowing));
  if (value_of(begun) <= 0) return slowed(progress, slowing, fading);
  const Number already = begun + slowing * lost(Number(log1p(begun)), fading);
  return slowed(Number(already + progress), slowing, fading);
}

/// The part of a cost in ln(error) that goes with the staleness.
template <class Number>
Number wander(const Parameters<Number>& curve, double staleness, const Number& cost) {
  using std::exp;
  const Number most = exp(curve[kLogWander]) * staleness;
  if (value_of(most) <= 0 || value_of(cost) <= 0) return Number(0);
  constexpr double kWhole = 40;  // where expm1() is -1, and its slope may be 0 times infinity
  if (value_of(cost) > kWhole * value_of(most)) return most;
  return -most * expm1(Number(-cost / most));
}

template <class Number>
struct Parts {
  Number healthy;
  Number penalty;
};

template <class Number>
Parts<Number> parts_of(const Parameters<Number>& curve, const CurvePlace& place) {
  using std::exp;
  using std::log;
  const Number floor =
      exp(curve[kLogFloor]) * (1 + exp(curve[kLogNoise]) * place.effective_rate / place.batch);
  const auto after = [&](const Number& progress) -> Number {
    return log(floor + place.initial_error * exp(-curve[kPower] * log1p(progress)));
  };
  const Number progress = fresh_progress(curve, place);
  const Number healthy = after(progress);
  const auto cost = [&](const StalePlace& stale) -> Number {
    return after(stale_progress(curve, stale, place.spread_gain, progress)) - healthy;
  };
  const Number so_far = cost(place.so_far);
  if (value_of(progress) <= 0) return {healthy, Number(0)};
  constexpr double kWhole = 4;  // in ln, of what exp(-exp()) leaves nothing of
  const Number begun = exp(curve[kLogOnsetPower]) * (log(progress) - curve[kLogOnset]);
  const Number onset = -expm1(Number(-exp(at_most(begun, kWhole))));
  return {healthy, onset * (so_far - wander(curve, place.so_far.staleness, so_far) +
                            wander(curve, place.recent.staleness, cost(place.recent)))};
}

/// Of a training whose rate or protocol changes.
template <class Number>
Parts<Number> parts_of_stretches(const Parameters<Number>& curve, const CurvePlace& place) {
  using std::exp;
  using std::log;
  const CurveStretch& last = place.stretches.back();
  const Number floor =
      exp(curve[kLogFloor]) * (1 + exp(curve[kLogNoise]) * last.effective_rate / last.batch);
  const auto after = [&](const Number& progress) -> Number {
    return log(floor + place.initial_error * exp(-curve[kPower] * log1p(progress)));
  };
  Number fresh(0), stale(0);
  double updates = 0, staleness = 0, highest = 0;
  for (const CurveStretch& one : place.stretches) {
    const double whole = updates > 0 ? one.updates : effective_updates(one.updates, place.momentum);
    const Number more = fresh_progress(curve, one.effective_rate, one.batch, whole);
    stale = stale_progress(curve, one.stale, 1, more, stale);
    fresh += more;
    updates += one.updates;
    staleness += one.updates * one.stale.staleness;
    if (one.stale.staleness > 0) highest = std::max(highest, one.effective_rate);
  }
  const Number healthy = after(fresh);
  if (value_of(fresh) <= 0) return {healthy, Number(0)};
  const Number cost = after(stale) - healthy;
  if (highest <= 0) return {healthy, cost};
  // The wandering goes with the rate, too.
  return {healthy, cost - wander(curve, staleness / updates, cost) +
                       (last.effective_rate / highest) * wander(curve, last.stale.staleness, cost)};
}

template <class Number>
Parts<Number> all_parts_of(const Parameters<Number>& curve, const CurvePlace& place) {
  return place.stretches.empty() ? parts_of(curve, place) : parts_of_stretches(curve, place);
}

}  // namespace

LearningCurvePrior learning_curve_prior() {
  LearningCurvePrior prior;
  prior.mean << std::log(0.02), std::log(10), 0.7, std::log(0.1), 1, 2, 0, 0.5, 0, std::log(0.1),
      std::log(2), 0, 0, 0.5, 1, std::log(3);
  prior.deviation << 0.7, 2, 0.4, 1.5, 1.5, 0.6, 1.5, 0.3, 0.5, 1, 1.5, 1, 0.5, 0.5, 1.5, 0.5;
  return prior;
}

LogError log_error(const LearningCurve& curve, const CurvePlace& place) {
  Parameters<double> parameters;
  for (int i = 0; i < kLearningCurveParameters; ++i) parameters[i] = curve[i];
  const auto [healthy, penalty] = all_parts_of(parameters, place);
  return {healthy + penalty, std::max(0.0, penalty)};
}

LogErrorSlope log_error_slope(const LearningCurve& curve, const CurvePlace& place) {
  Parameters<Dual> parameters;
  for (int i = 0; i < kLearningCurveParameters; ++i)
    parameters[i] = Dual(curve[i], kLearningCurveParameters, i);
  const auto [healthy, penalty] = all_parts_of(parameters, place);
  return {healthy.value() + penalty.value(), healthy.derivatives() + penalty.derivatives()};
}

}  // namespace rehearse::inline convergence
