#include "fit/fit_points.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/percentile.hpp"

namespace rehearse::inline fit {
namespace {

/// A packet's worth: what is sent in it costs next to nothing.
constexpr Bytes kStartUp(1024);
/// More sizes than this say no more: long sweeps are thinned out evenly.
constexpr std::size_t kMostSizes = 64;

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

std::vector<TimedSize> tidy(std::vector<TimedSize> points) {
  for (const TimedSize& p : points) {
    if (!positive(p.size.value()) || !positive(p.time.value())) {
      throw std::invalid_argument("sizes and times must be positive");
    }
  }
  std::sort(points.begin(), points.end(),
            [](const TimedSize& a, const TimedSize& b) { return a.size < b.size; });
  std::vector<TimedSize> result;
  for (auto first = points.begin(); first != points.end();) {
    const auto last = std::find_if(first, points.end(),
                                   [&](const TimedSize& p) { return p.size != first->size; });
    std::vector<double> times;
    for (auto p = first; p != last; ++p) times.push_back(p->time.value());
    result.push_back({first->size, Seconds(percentile(times, 0.5))});
    first = last;
  }
  return result;
}

std::vector<TimedSize> thinned(const std::vector<TimedSize>& points) {
  if (points.size() <= kMostSizes) return points;
  std::vector<TimedSize> result;
  for (std::size_t i = 0; i < kMostSizes; ++i) {
    result.push_back(points[i * (points.size() - 1) / (kMostSizes - 1)]);
  }
  return result;
}

std::vector<TimedSize> merge_tiny(const std::vector<TimedSize>& points) {
  std::vector<double> sizes, times;
  std::vector<TimedSize> rest;
  for (const TimedSize& p : points) {
    if (p.size > kStartUp) {
      rest.push_back(p);
    } else {
      sizes.push_back(p.size.value());
      times.push_back(p.time.value());
    }
  }
  if (sizes.empty() || rest.size() + 1 < kFewestSizes) return points;
  rest.insert(rest.begin(), {Bytes(percentile(sizes, 0.5)), Seconds(percentile(times, 0.5))});
  return rest;
}

}  // namespace rehearse::inline fit
