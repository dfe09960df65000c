#pragma once

#include <optional>
#include <vector>

#include "fit/segments.hpp"

namespace rehearse::inline fit {

/// A line time = intercept + slope * size, in seconds and bytes.
struct Line {
  double intercept = 0;
  double slope = 0;
  double at(double size) const { return intercept + slope * size; }
};

/// ln(predicted / measured): a relative error in which half and twice are equally far off.
double residual_of(double predicted, const TimedSize& point);

/// Huber's loss: quadratic up to `limit`, linear beyond.
double huber_loss(double residual, double limit);

/// The line through `members` with the least Huber's loss of their residuals, by iteratively
/// reweighted least squares; nothing where no rising line fits.
std::optional<Line> robust_line(const std::vector<const TimedSize*>& members, double limit);

}  // namespace rehearse::inline fit
