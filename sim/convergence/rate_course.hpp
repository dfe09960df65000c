#pragma once

#include <string>
#include <vector>

#include "convergence/observation.hpp"

namespace rehearse::inline convergence {

/// From a share of the training on, the learning rate is so many times the setting's.
struct RateChange {
  double after = 0;  ///< share of the samples, above 0 and below 1
  double times = 1;  ///< above 0
};

/// How the learning rate and the protocol change along a training.
struct RateCourse {
  std::vector<RateChange> rates{};  ///< in order
  /// Share of the samples that all workers train in step before updates go stale, with a rate in
  /// proportion to their batch (Sync-Switch: Li et al., ICDCS 2021); 0: none.
  double synchronous_first = 0;

  bool changes() const { return !rates.empty() || synchronous_first > 0; }
};

/// The setting along a training of so many samples. Workers are one more than the mean staleness
/// where they are 0.
TrainingSetting along(TrainingSetting setting, const RateCourse& course, double samples,
                      double workers = 0);

/// "50%:0.1,75%:0.01": changes in order, by share of the samples and factor of the first rate.
/// InputError with what was expected.
std::vector<RateChange> parse_rates(const std::string& text);

}  // namespace rehearse::inline convergence
