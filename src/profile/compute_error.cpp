#include "profile/compute_error.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline profile {
namespace {

using Points = std::vector<BatchPoint>;

/// Quantile of the normal distribution that leaves 5 % above.
constexpr double kNinety = 1.6449;
/// A normal distribution's standard deviation over its interquartile range.
constexpr double kSigmaOfQuartiles = 1 / 1.349;
/// Standard error of a median over that of a mean.
constexpr double kMedianLoss = 1.2533;

double square(double value) { return value * value; }

/// The units' medians are sums of independent draws.
double sampling_error(const BatchPoint& point) {
  double squares = 0;
  for (const UnitTimes& unit : point.units) {
    squares += square(unit.forward.value() * unit.forward_spread) +
               square(unit.backward.value() * unit.backward_spread);
  }
  const double spread = std::sqrt(squares) / point.units_sum().value();
  return kNinety * kMedianLoss * kSigmaOfQuartiles * spread /
         std::sqrt(static_cast<double>(point.repetitions));
}

/// ln of what the line through two points says of a third, over what was measured there. A line
/// that has fallen to nothing is off by as much as anything can be: ten times.
double line_error(const BatchPoint& a, const BatchPoint& b, const BatchPoint& left_out) {
  const double share =
      static_cast<double>(left_out.batch - a.batch) / static_cast<double>(b.batch - a.batch);
  const double measured = left_out.units_sum().value();
  const double line = a.units_sum().value() + (b.units_sum() - a.units_sum()).value() * share;
  return std::abs(std::log(std::max(line / measured, 0.1)));
}

double doublings(std::int64_t from, std::int64_t to) {
  return std::abs(std::log2(static_cast<double>(to) / static_cast<double>(from)));
}

/// In the middle between two measured batches; an inner batch that is left out lies in a gap of
/// two.
double interpolation_error(const Points& points) {
  if (points.size() < 3) return kUntestedInterpolation;
  double squares = 0;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    squares += square(line_error(points[i - 1], points[i + 1], points[i]));
  }
  return kNinety * std::sqrt(squares / static_cast<double>(points.size() - 2));
}

/// Per doubling: of the outermost batch on that side, left out of the line through the next two.
double extrapolation_error(const Points& points, bool above) {
  if (points.size() == 1) return kUntestedExtrapolation;
  if (points.size() == 2) return kUntestedExtrapolation / 2;
  const auto from_end = [&](std::size_t i) -> const BatchPoint& {
    return above ? points[points.size() - 1 - i] : points[i];
  };
  const double error = line_error(from_end(2), from_end(1), from_end(0));
  return std::max(kNinety * error / doublings(from_end(1).batch, from_end(0).batch),
                  kLeastExtrapolation);
}

}  // namespace

double compute_error(const ComputeProfile& profile, std::int64_t batch) {
  const Points& points = profile.points;
  check(!points.empty(), "a profile without points has no error");
  const auto above = std::find_if(points.begin(), points.end(), [batch](const BatchPoint& point) {
    return point.batch >= batch;
  });
  const BatchPoint& high = above == points.end() ? points.back() : *above;
  const bool measured = high.batch == batch;
  const bool between = !measured && above != points.begin() && above != points.end();
  const BatchPoint& low = between ? *(above - 1) : high;

  double squares = square(profile.origin.cuda == "none" ? kCpuDrift : kGpuDrift);
  squares += square(std::max(std::abs(low.sum_difference()), std::abs(high.sum_difference())));
  squares += square(std::max(sampling_error(low), sampling_error(high)));
  if (between) squares += square(interpolation_error(points));
  if (!measured && !between) {
    const bool beyond = batch > high.batch;
    squares += square(extrapolation_error(points, beyond) * doublings(low.batch, batch));
  }
  return std::sqrt(squares);
}

}  // namespace rehearse::inline profile
