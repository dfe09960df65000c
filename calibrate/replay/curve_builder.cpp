#include "replay/curve_builder.hpp"

#include <cmath>

namespace rehearse::inline calibrate {
namespace {

std::optional<double> if_finite(double value) {
  if (std::isfinite(value)) return value;
  return std::nullopt;
}

}  // namespace

void CurveBuilder::add_gradient(double loss, std::uint64_t samples) {
  loss_sum_ += loss;
  ++losses_;
  samples_ += samples;
}

void CurveBuilder::add_point(std::uint64_t update, Seconds time, const Score& score) {
  CurvePoint point{.update = update, .time = time, .samples = samples_};
  if (losses_ > 0) {
    const double train_loss = loss_sum_ / static_cast<double>(losses_);
    point.train_loss = if_finite(train_loss);
    curve_.diverged |= !std::isfinite(train_loss);
  }
  const auto samples = static_cast<double>(score.samples);
  const double test_loss = score.loss_sum / samples;
  point.test_loss = if_finite(test_loss);
  point.test_accuracy = static_cast<double>(score.correct) / static_cast<double>(score.predictions);
  curve_.diverged |= !std::isfinite(test_loss);
  curve_.points.push_back(point);
  loss_sum_ = 0;
  losses_ = 0;
}

Curve CurveBuilder::finish() {
  if (samples_ >= curve_.train_samples && !curve_.points.empty() &&
      curve_.points.back().test_accuracy <= untaught_)
    curve_.diverged = true;
  return std::move(curve_);
}

void CurveBuilder::go_on_from(const State& state) {
  curve_.points = state.points;
  curve_.diverged = state.diverged;
  loss_sum_ = state.loss_sum;
  losses_ = state.losses;
  samples_ = state.samples;
}

}  // namespace rehearse::inline calibrate
