#include "profile/compute_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace rehearse::inline profile {
namespace {

/// The line through two points of the measured batches.
struct Line {
  const BatchPoint& low;
  const BatchPoint& high;
  double share;  ///< 0 at low, 1 at high; outside [0, 1] where it is extended

  template <class Q>
  Q between(Q a, Q b) const {
    return std::max(Q(0), a + (b - a) * share);
  }
  UnitTimes unit(std::size_t i) const {
    const UnitTimes &a = low.units.at(i), &b = high.units.at(i);
    return {.name = a.name,
            .forward = between(a.forward, b.forward),
            .backward = between(a.backward, b.backward),
            .forward_spread = std::max(a.forward_spread, b.forward_spread),
            .backward_spread = std::max(a.backward_spread, b.backward_spread),
            .forward_launch = between(a.forward_launch, b.forward_launch),
            .backward_launch = between(a.backward_launch, b.backward_launch),
            .saved = between(a.saved, b.saved),
            .workspace = between(a.workspace, b.workspace),
            .forward_flops = between(a.forward_flops, b.forward_flops),
            .backward_flops = between(a.backward_flops, b.backward_flops),
            .forward_moved = between(a.forward_moved, b.forward_moved),
            .backward_moved = between(a.backward_moved, b.backward_moved)};
  }
};

Line line_at(const std::vector<BatchPoint>& points, std::int64_t batch) {
  // The first segment whose upper end is not below the batch; the last where there is none.
  auto high = std::find_if(points.begin() + 1, points.end() - 1,
                           [batch](const BatchPoint& point) { return point.batch >= batch; });
  const BatchPoint &a = *(high - 1), &b = *high;
  return {a, b, static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch)};
}

/// One measured batch says nothing of what a step costs at once: all of it is taken to grow.
BatchCosts in_proportion(const BatchPoint& point, std::int64_t batch) {
  const double factor = static_cast<double>(batch) / static_cast<double>(point.batch);
  BatchCosts costs{point.units, point.allocated_peak, ""};
  for (UnitTimes& unit : costs.units) {
    unit.forward *= factor;
    unit.backward *= factor;
    unit.saved *= factor;
    unit.workspace *= factor;
    unit.forward_flops *= factor;
    unit.backward_flops *= factor;
    unit.forward_moved *= factor;
    unit.backward_moved *= factor;
  }
  return costs;
}

std::string outside_of(const std::vector<BatchPoint>& points, std::int64_t batch) {
  const std::int64_t low = points.front().batch, high = points.back().batch;
  if (batch >= low && batch <= high) return "";
  if (low == high) return fmt::format("batch {} from batch {}", batch, low);
  return fmt::format("batch {} from batches {} to {}", batch, low, high);
}

}  // namespace

std::int64_t ProfiledUnit::parameters() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
}

Seconds BatchPoint::units_sum() const {
  Seconds sum{0};
  for (const UnitTimes& unit : units) sum += unit.forward + unit.backward;
  return sum;
}

double BatchPoint::sum_difference() const {
  return units_sum() / (whole.forward + whole.backward) - 1;
}

BatchCosts ComputeProfile::at(std::int64_t batch) const {
  check(!points.empty(), "a profile without points has no costs");
  check(batch > 0, "a batch has at least one sample");
  BatchCosts costs;
  if (points.size() == 1) {
    costs = in_proportion(points.front(), batch);
  } else {
    const Line line = line_at(points, batch);
    for (std::size_t i = 0; i < line.low.units.size(); ++i) costs.units.push_back(line.unit(i));
    costs.allocated_peak = line.between(line.low.allocated_peak, line.high.allocated_peak);
  }
  costs.outside = outside_of(points, batch);
  return costs;
}

}  // namespace rehearse::inline profile
