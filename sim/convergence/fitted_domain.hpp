#pragma once

#include <vector>

#include "convergence/observation.hpp"

namespace rehearse::inline convergence {

/// Ranges that the observations span. A question outside of them is answered by the formulae alone.
struct FittedDomain {
  double least_rate = 0, most_rate = 0;
  double least_momentum = 0, most_momentum = 0;
  double most_staleness = 0;  ///< mean
  double most_updates = 0;
  double least_samples = 0, most_samples = 0;  ///< per update
  double most_index = 0;                       ///< of the runs that trained
  double most_compensation = 0;                ///< lambda, of runs with stale gradients
};

/// Whether a setting has delay compensation, and stale gradients for it.
bool compensated(const TrainingSetting& setting);

/// `index` are the observations' stability indices.
FittedDomain domain_of(const std::vector<Observation>& observations,
                       const std::vector<double>& index);

/// Mean error of the untrained parameters.
double mean_initial_error(const std::vector<Observation>& observations);

/// Median of the samples per update.
double median_samples(const std::vector<Observation>& observations);

/// Least error of runs that failed and went on to some end; by definition where there is none.
double least_failed_error(const std::vector<Observation>& observations, double initial_error,
                          double trained_error);

}  // namespace rehearse::inline convergence
