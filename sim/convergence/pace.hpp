#pragma once

#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline convergence {

/// How fast samples are trained: at a rate or, in a run that is known to its end, each update when
/// it was applied there.
struct Pace {
  double samples_per_s = 0;       ///< above 0; while all workers train
  double samples_per_update = 1;  ///< above 0
  /// When its updates were applied, in order; empty: at the rate throughout.
  std::vector<Seconds> applied = {};
  /// So many samples come before them at a rate of their own (without `applied`).
  double first_samples = 0, first_samples_per_s = 1;

  /// When so many samples have been trained (0 at time 0, linear from update to update, and by the
  /// rate after the last one); infinite for infinitely many.
  Seconds time_to(double samples) const;
  /// How many samples have been trained until then: the most of which time_to() is not later.
  double samples_by(Seconds time) const;
};

}  // namespace rehearse::inline convergence
