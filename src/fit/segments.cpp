#include "fit/segments.hpp"

#include <algorithm>
#include <cmath>

#include "base/percentile.hpp"

namespace rehearse::inline fit {

std::size_t cheapest_segment(const std::vector<Segment>& segments, Bytes size) {
  const auto least =
      std::min_element(segments.begin(), segments.end(), [&](const Segment& a, const Segment& b) {
        return a.latency + size / a.rate < b.latency + size / b.rate;
      });
  return static_cast<std::size_t>(least - segments.begin());
}

Seconds predict(const std::vector<Segment>& segments, Bytes size) {
  const Segment& segment = segments.at(cheapest_segment(segments, size));
  return segment.latency + size / segment.rate;
}

std::vector<PointError> relative_errors(const std::vector<Segment>& segments,
                                        const std::vector<TimedSize>& points) {
  std::vector<PointError> errors;
  errors.reserve(points.size());
  for (const TimedSize& p : points) {
    errors.push_back({p.size, std::abs(predict(segments, p.size) / p.time - 1)});
  }
  return errors;
}

FitErrors summarize_errors(const std::vector<PointError>& errors, Bytes from, Bytes below) {
  std::vector<double> values;
  for (const PointError& e : errors) {
    if (e.size >= from && e.size < below) values.push_back(e.error);
  }
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(values.size())));
  return {percentile(values, 0.5), values[rank - 1], values.back()};
}

}  // namespace rehearse::inline fit
