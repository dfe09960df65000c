#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse {

/// The factor on the compute time of a rank in a training step, counted over all its iterations:
/// slowdown times jitter.
double compute_factor(const Schedule& schedule, RankId rank, std::uint32_t step);

/// The factor on one computation besides: 1 unless jitter was measured.
double operation_factor(const Schedule& schedule, RankId rank, OpId op, std::uint32_t iteration);

/// Standard deviation over mean, under the jitter, of what a rank computes in a training step;
/// where jitter is measured, of all that it computes in an iteration, its operations independent:
/// the most of any program.
double compute_variation(const Schedule& schedule);

/// By rank: whether it takes part in an iteration.
std::vector<bool> participants(const Schedule& schedule, std::uint32_t iteration);

}  // namespace rehearse
