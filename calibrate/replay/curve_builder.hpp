#pragma once

#include <cstdint>

#include "convergence/curve.hpp"
#include "replay/replica.hpp"

namespace rehearse::inline calibrate {

/// Builds a curve's points, for replays and real runs alike. A run has diverged where a point's
/// train or test loss is not finite, and where it ends, after an epoch or more, at an accuracy up
/// to which nothing is learned (untaught_accuracy()): what it learned is lost, or it never began
/// to. A loss that is merely large says nothing yet: near the edge of what trains, runs come back
/// from several times what guessing costs.
class CurveBuilder {
 public:
  CurveBuilder(Curve begun, double untaught) : curve_(std::move(begun)), untaught_(untaught) {}

  /// A gradient is applied.
  void add_gradient(double loss, std::uint64_t samples);
  /// The parameters after `update` updates.
  void add_point(std::uint64_t update, Seconds time, const Score& score);

  bool diverged() const { return curve_.diverged; }
  const std::vector<CurvePoint>& points() const { return curve_.points; }
  Curve finish();

  /// State that it has taken in so far, for one that goes on from there.
  struct State {
    std::vector<CurvePoint> points;
    bool diverged = false;
    double loss_sum = 0;
    std::uint64_t losses = 0, samples = 0;
  };
  State state() const { return {curve_.points, curve_.diverged, loss_sum_, losses_, samples_}; }
  void go_on_from(const State& state);

 private:
  Curve curve_;
  double untaught_ = 0;
  double loss_sum_ = 0;  ///< since the last point
  std::uint64_t losses_ = 0, samples_ = 0;
};

}  // namespace rehearse::inline calibrate
