#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convergence/curve.hpp"
#include "convergence/past_staleness.hpp"
#include "convergence/staleness.hpp"

namespace rehearse::inline convergence {

/// How stale the updates of a run were up to one of them.
struct CoursePoint {
  double update = 0;
  PastStaleness past;
};

/// Settings that decide how a run of one model on one data set converges.
struct TrainingSetting {
  Staleness staleness;
  double learning_rate = 0.1;
  double momentum = 0;
  double samples_per_update = 1;
  std::vector<std::uint32_t> order = {};  ///< staleness in order of application; empty: in no order
  double delay_compensation = 0;          ///< Mitigation's lambda
  /// How the staleness changes along the run, in order of updates; empty: not at all.
  std::vector<CoursePoint> course = {};

  /// Parts of a training whose rate or protocol changes, in order; empty: it does not. Rate,
  /// samples per update and staleness above are then those of the part nearest to its edge.
  std::vector<TrainingStretch> stretches = {};

  /// Samples after so many updates, and the other way about.
  double samples_after(double updates) const;
  double updates_after(double samples) const;
  /// Before the first point of the course as at that, after the last as at that, linear between.
  PastStaleness past_after(double updates) const;
  /// How far a constant gradient leads per update: rate / (1 - momentum).
  double effective_rate() const { return learning_rate / (1 - momentum); }
};

/// The setting of a training in these parts, none of which has no samples; without any as it is.
TrainingSetting with_stretches(TrainingSetting setting, std::vector<TrainingStretch> stretches);

/// Course of a whole run whose updates had these stalenesses, in order of application.
std::vector<CoursePoint> course_of(const std::vector<std::uint32_t>& staleness);

/// The setting in which gradients are applied as `mitigation` makes them: a rate that is divided by
/// the staleness weighs each staleness by the inverse (along the course by what that is on
/// average); corrected momentum is what the server uses; delay compensation stays for
/// stability_index(). Bounds, backup workers and warm-up show in the staleness itself.
TrainingSetting mitigated(TrainingSetting setting, const Mitigation& mitigation,
                          std::uint32_t workers);

/// The error after some update.
struct ErrorPoint {
  double update = 0;
  double error = 0;  ///< share of the test samples, above 0
  double share = 1;  ///< of what a stretch of the run says; see Observation::points
};

/// The error above which a run that ends there has failed: halfway from the untrained one to
/// `trained_error`, what runs of this network on this data end with at best. Where that is not
/// known it is 0.
double failed_error(double untrained_error, double trained_error);

/// A curve as the fit sees it.
struct Observation {
  TrainingSetting setting;
  /// Up to four of each stretch, of eight of equal width in ln(updates), which share its weight
  /// of 1. Not means of them: what is asked is what one look at a run shows, and means scatter
  /// less.
  std::vector<ErrorPoint> points;
  double updates = 0;        ///< of the last point
  double initial_error = 0;  ///< of the untrained parameters
  bool failed = false;       ///< has_failed()
};

/// The mean error over the last quarter of a run.
double end_error(const Curve& curve);

/// The least of them, of the curves that have a point after the untrained one and did not diverge:
/// the `trained_error` where nothing else says one. 1 without any such curve.
double least_end_error(std::span<const Curve> curves);

/// Whether the run diverged, or has an end_error() above failed_error().
bool has_failed(const Curve& curve, double trained_error = 0);

/// InputError naming `name` where a curve has no untrained point, none after it, or a mitigation
/// that the forecast knows nothing of (local steps).
Observation observe(const Curve& curve, const std::string& name, double trained_error = 0);

}  // namespace rehearse::inline convergence
