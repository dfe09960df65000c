#pragma once

#include <vector>

#include "convergence/observation.hpp"
#include "convergence/stability.hpp"

namespace rehearse {

/// What delay compensation makes up for (Descent::compensation) where it is so strong, in units of
/// samples per update over lambda.
double compensated_part(const TrainingSetting& setting, double strength);

/// StabilityIndices::slowing of updates in no order: the rate over the mean's edge at the mean
/// staleness.
double slowing_index(const TrainingSetting& setting, double compensation);

/// Of all observations.
std::vector<double> slowing_indices(const std::vector<Observation>& observations, double strength);

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

}  // namespace rehearse
