#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse::inline explanation {

/// True for what GPUs compute: forward, backward, optimizer. Not the host's launches, a server's
/// updates and what travels.
bool trains(const Op& op);
/// True for a copy between a GPU and its host, whose time is given (FSDP's offload).
bool is_copy(const Op& op);
/// True for what crosses a link: collectives, transfers, copies.
bool travels(const Op& op);

/// Compute of one step of a rank at its own speed, without jitter.
Seconds nominal_compute(const Schedule& schedule, RankId rank);

/// By rank: its nominal compute over that of the median rank that computes (the lower of two).
/// 1 where nothing is computed.
std::vector<double> relative_compute(const Schedule& schedule);

}  // namespace rehearse::inline explanation
