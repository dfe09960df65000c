#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Draw of a rank's jitter for a training step: a factor on all that it computes in it. `rank`: its
/// index before folding.
double step_draw(const Schedule& schedule, std::size_t rank, std::uint32_t step);

/// The factor on the compute time of a rank in a training step, counted over all its iterations:
/// slowdown times jitter. Of a schedule that is not folded.
double compute_factor(const Schedule& schedule, RankId rank, std::uint32_t step);

/// The factor on one computation besides: 1 unless jitter was measured.
double operation_factor(const Schedule& schedule, RankId rank, OpId op, std::uint32_t iteration);

/// Standard deviation over mean, under the jitter, of what a rank computes in a training step;
/// where jitter is measured, of all that it computes in an iteration, its operations independent:
/// the most of any program.
double compute_variation(const Schedule& schedule);

/// True where a step is so much like the next, a spread of at most 1 %, that what a change does to
/// one it does to all.
bool steps_alike(const Jitter& jitter);

/// Whether each rank takes part in an iteration, by rank.
std::vector<bool> participants(const Schedule& schedule, std::uint32_t iteration);

}  // namespace rehearse::inline schedule
