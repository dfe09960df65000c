#pragma once

#include <vector>

#include "convergence/learning_curve.hpp"
#include "convergence/observation.hpp"
#include "convergence/stability.hpp"

namespace rehearse::inline convergence {

/// Part that delay compensation of this strength makes up for (Descent::compensation). `strength`
/// is in units of samples per update over lambda.
double compensated_part(const TrainingSetting& setting, double strength);

/// Quantities that slow runs. `index` is the rate over the mean's edge (mean_stability_edge()),
/// without noise, and as if all updates were as stale as they are on average. `spread_gain` is by
/// how much a spread of the staleness moves that edge up on a quadratic; LearningCurve says how
/// much of that holds. What noise of batches costs is in the curve of fresh gradients: with one
/// index for both, a high rate without staleness passed for as slow as a low one with it.
struct Slowing {
  double index = 0;         ///< at the setting's mean staleness
  double spread_gain = 1;   ///< the edge of the staleness's distribution over that of its mean
  double order_factor = 1;  ///< by which the order of the updates moves the edge
  double compensation = 0;
  std::vector<double> stretches{};  ///< `index` of each of the setting's
};
Slowing slowing_of(const TrainingSetting& setting, double compensation, double order_factor = 1);

/// Where on the curve a setting is after so many updates, its batch over the `reference` samples
/// per update.
CurvePlace place_of(const TrainingSetting& setting, const Slowing& slowing, double updates,
                    double reference, double initial_error);

/// StabilityIndices::failing of all observations, for any noise of the curvature at `reference`
/// samples per update. They must outlive it.
class FailingIndices {
 public:
  FailingIndices(const std::vector<Observation>& observations, double reference, double strength);
  std::vector<double> at(double curvature_noise);

 private:
  const std::vector<Observation>& observations_;
  double reference_;
  std::vector<StabilityEdges> edges_;
};

}  // namespace rehearse::inline convergence
