#include "convergence/observation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr std::size_t kStretches = 8;
constexpr std::size_t kOfAStretch = 4;
constexpr std::uint64_t kStalest = 10'000;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw InputError(fmt::format("{}: error: {}", name, why));
}

/// Errors of fewer samples than one cannot be told from none.
double error_of(const CurvePoint& point, const Curve& curve) {
  const auto samples = static_cast<double>(std::max<std::uint64_t>(curve.test_samples, 1));
  return std::max(1 - point.test_accuracy, 0.5 / samples);
}

std::vector<ErrorPoint> points_of(const Curve& curve) {
  const auto& points = curve.points;
  const auto first = static_cast<double>(points[1].update);
  const double span = std::log(static_cast<double>(points.back().update) / first);
  std::vector<std::vector<ErrorPoint>> stretches(kStretches);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto update = static_cast<double>(points[i].update);
    const double part = span > 0 ? std::log(update / first) / span : 0;
    const auto at = std::min(kStretches - 1, static_cast<std::size_t>(part * kStretches));
    stretches[at].push_back({update, error_of(points[i], curve)});
  }
  std::vector<ErrorPoint> taken;
  for (const auto& stretch : stretches) {
    const std::size_t count = std::min(kOfAStretch, stretch.size());
    for (std::size_t i = 1; i <= count; ++i) {
      taken.push_back(stretch[i * stretch.size() / count - 1]);  // the last is among them
      taken.back().share = 1 / static_cast<double>(count);
    }
  }
  return taken;
}

std::vector<CoursePoint> course_of(const Curve& curve) {
  std::vector<CoursePoint> course;
  for (const CurvePoint& point : curve.points)
    if (point.staleness) course.push_back({static_cast<double>(point.update), *point.staleness});
  return course;
}

}  // namespace

PastStaleness TrainingSetting::past_after(double updates) const {
  if (course.empty()) return {staleness.mean(), staleness.mean()};
  const auto next = std::ranges::lower_bound(course, updates, {}, &CoursePoint::update);
  if (next == course.begin()) return next->past;
  if (next == course.end()) return course.back().past;
  const CoursePoint& before = *std::prev(next);
  const double part = (updates - before.update) / (next->update - before.update);
  return {std::lerp(before.past.mean, next->past.mean, part),
          std::lerp(before.past.recent, next->past.recent, part)};
}

double TrainingSetting::samples_after(double updates) const {
  double samples = 0, left = updates;
  for (const TrainingStretch& one : stretches) {
    const double own = (one.samples - samples) / one.samples_per_update;
    if (left <= own || &one == &stretches.back()) return samples + left * one.samples_per_update;
    left -= own;
    samples = one.samples;
  }
  return updates * samples_per_update;
}

double TrainingSetting::updates_after(double samples) const {
  double before = 0, updates = 0;
  for (const TrainingStretch& one : stretches) {
    const double end = &one == &stretches.back() ? samples : std::min(samples, one.samples);
    updates += std::max(0.0, end - before) / one.samples_per_update;
    before = std::max(before, one.samples);
    if (samples <= one.samples) return updates;
  }
  return stretches.empty() ? samples / samples_per_update : updates;
}

TrainingSetting with_stretches(TrainingSetting setting, std::vector<TrainingStretch> stretches) {
  if (stretches.empty()) return setting;
  const auto nearest = std::ranges::max_element(stretches, {}, [](const TrainingStretch& one) {
    return one.learning_rate * (1 + 2 * one.staleness);
  });
  setting.learning_rate = nearest->learning_rate;
  setting.samples_per_update = nearest->samples_per_update;
  setting.staleness = nearly_constant_staleness(nearest->staleness);
  setting.stretches = std::move(stretches);
  return setting;
}

std::vector<CoursePoint> course_of(const std::vector<std::uint32_t>& staleness) {
  PastStalenessMeter meter;
  std::vector<CoursePoint> course;
  for (const std::uint32_t value : staleness) {
    meter.add(value);
    course.push_back({static_cast<double>(course.size() + 1), meter.past()});
  }
  return course;
}

TrainingSetting mitigated(TrainingSetting setting, const Mitigation& mitigation,
                          std::uint32_t workers) {
  if (mitigation.momentum_correction) {
    const MomentumAndRate corrected =
        corrected_momentum({setting.momentum, setting.learning_rate}, workers);
    setting.momentum = corrected.momentum;
    setting.learning_rate = corrected.learning_rate;
  }
  setting.delay_compensation = mitigation.delay_compensation;
  if (!mitigation.staleness_aware) return setting;
  const double before = setting.staleness.mean();
  auto& share = setting.staleness.share;
  double sum = 0;
  for (std::size_t k = 0; k < share.size(); ++k) {
    share[k] /= std::max(1.0, static_cast<double>(k));
    sum += share[k];
  }
  for (double& part : share) part /= sum;
  setting.learning_rate *= sum;
  for (CoursePoint& point : setting.course) {
    const double scale = before > 0 ? setting.staleness.mean() / before : 1;
    point.past = {scale * point.past.mean, scale * point.past.recent};
  }
  return setting;
}

double failed_error(double untrained_error, double trained_error) {
  return (untrained_error + trained_error) / 2;
}

double end_error(const Curve& curve) {
  const std::size_t last = std::max<std::size_t>(1, (curve.points.size() - 1) / 4);
  double sum = 0;
  for (std::size_t i = curve.points.size() - last; i < curve.points.size(); ++i)
    sum += error_of(curve.points[i], curve);
  return sum / static_cast<double>(last);
}

double least_end_error(std::span<const Curve> curves) {
  double least = 1;
  for (const Curve& curve : curves)
    if (!curve.diverged && curve.points.size() > 1) least = std::min(least, end_error(curve));
  return least;
}

bool has_failed(const Curve& curve, double trained_error) {
  if (curve.diverged) return true;
  return end_error(curve) > failed_error(error_of(curve.points.front(), curve), trained_error);
}

Observation observe(const Curve& curve, const std::string& name, double trained_error) {
  if (curve.mitigation.local_steps > 1)
    refuse(name, "trained with local steps, which the forecast knows nothing of");
  if (curve.mitigation.outer)
    refuse(name, "trained with an outer optimizer, which the forecast knows nothing of");
  if (curve.points.size() < 2 && !curve.diverged)
    refuse(name, "expected a point after the untrained one");
  if (curve.points.empty() || curve.points.front().update != 0)
    refuse(name, "expected the untrained parameters as the first point (update 0)");
  if (!(curve.learning_rate > 0) || curve.momentum >= 0.99999)
    refuse(name, "expected a learning rate above 0 and a momentum below 0.99999");
  Observation seen;
  const CurvePoint& last = curve.points.back();
  const double samples_per_update =
      last.update > 0 ? static_cast<double>(last.samples) / static_cast<double>(last.update)
                      : static_cast<double>(curve.batch);
  StalenessHistogram histogram;
  for (const auto& [staleness, updates] : curve.staleness.histogram) {
    if (staleness > kStalest)
      refuse(name, fmt::format("a staleness of {}, where {} is the most", staleness, kStalest));
    if (updates > 0) histogram[staleness] = updates;
  }
  if (histogram.empty()) refuse(name, "expected updates in staleness.histogram");
  seen.setting = mitigated({.staleness = counted_staleness(histogram),
                            .learning_rate = curve.learning_rate,
                            .momentum = curve.momentum,
                            .samples_per_update = samples_per_update,
                            .course = course_of(curve)},
                           curve.mitigation, curve.workers);
  seen.setting = with_stretches(std::move(seen.setting), curve.stretches);
  seen.initial_error = error_of(curve.points.front(), curve);
  seen.updates = static_cast<double>(last.update);
  if (curve.points.size() > 1) seen.points = points_of(curve);
  seen.failed = has_failed(curve, trained_error);
  return seen;
}

}  // namespace rehearse::inline convergence
