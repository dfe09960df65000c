#include "fit/robust_line.hpp"

#include <Eigen/Dense>
#include <cmath>

namespace rehearse::inline fit {
namespace {

/// One Gauss-Newton step for the residuals of `members` from the predictions of `previous`, with
/// Huber's weights: (a + b s) / p = 1 + ln(t / p). Without `previous` the measured times stand for
/// the predictions. The columns are scaled to length 1 first: sizes span ten orders of magnitude.
std::optional<Line> solve(const std::vector<const TimedSize*>& members, const Line* previous,
                          double limit) {
  double a = 0, b = 0, d = 0, right_a = 0, right_b = 0;
  for (const TimedSize* point : members) {
    const double size = point->size.value(),
                 base = previous ? previous->at(size) : point->time.value();
    const double residual = previous ? residual_of(base, *point) : 0;
    const double weight = std::abs(residual) <= limit ? 1 : limit / std::abs(residual);
    const double of_intercept = 1 / base, of_slope = size / base;
    a += weight * of_intercept * of_intercept;
    b += weight * of_intercept * of_slope;
    d += weight * of_slope * of_slope;
    right_a += weight * of_intercept * (1 - residual);
    right_b += weight * of_slope * (1 - residual);
  }
  const Eigen::Matrix2d normal{{a, b}, {b, d}};
  const Eigen::Vector2d target(right_a, right_b);
  const Eigen::Vector2d scale = normal.diagonal().cwiseSqrt().cwiseInverse();
  const Eigen::Matrix2d scaled = scale.asDiagonal() * normal * scale.asDiagonal();
  if (1 - scaled(0, 1) * scaled(0, 1) < 1e-13) return std::nullopt;  // one size only: no line
  const Eigen::Vector2d right = target.cwiseProduct(scale);
  const Eigen::Vector2d x = scaled.ldlt().solve(right).cwiseProduct(scale);
  // A negative start-up cost is noise: the line through the origin then.
  const Line line = x(0) >= 0 ? Line{x(0), x(1)} : Line{0, target(1) / normal(1, 1)};
  if (!(line.slope > 0)) return std::nullopt;
  return line;
}

}  // namespace

double residual_of(double predicted, const TimedSize& point) {
  return std::log(predicted / point.time.value());
}

double huber_loss(double residual, double limit) {
  const double r = std::abs(residual);
  return r <= limit ? r * r / 2 : limit * (r - limit / 2);
}

std::optional<Line> robust_line(const std::vector<const TimedSize*>& members, double limit) {
  if (members.size() < 2) return std::nullopt;
  std::optional<Line> line = solve(members, nullptr, limit);
  for (int round = 0; line && round < 20; ++round) {
    const std::optional<Line> next = solve(members, &*line, limit);
    if (!next) return std::nullopt;
    const double change = std::abs(next->intercept - line->intercept) / (line->intercept + 1e-12) +
                          std::abs(next->slope / line->slope - 1);
    line = next;
    if (change < 1e-12) break;
  }
  return line;
}

}  // namespace rehearse::inline fit
