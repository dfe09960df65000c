#pragma once

#include "schedule/schedule.hpp"

namespace rehearse {

/// Standard deviation of the logarithm of an operation's time where jitter is measured; 0 where it
/// always takes as long.
double log_deviation(const Schedule& schedule, const Compute& compute);

/// Standard deviation over mean, under the jitter, of what a rank computes in a training step;
/// where jitter is measured, of all that it computes in an iteration, its operations independent:
/// the most of any program.
double compute_variation(const Schedule& schedule);

}  // namespace rehearse
