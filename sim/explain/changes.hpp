#pragma once

#include <string>
#include <vector>

#include "engine/machine.hpp"

namespace rehearse::inline explanation {

/// The rank computes as long as the median one and does not sleep.
void make_median(RankId rank, Machine& machine);
/// Ranks that compute longer than the median one, or sleep; the slowest first, at most `count`.
std::vector<RankId> slow_ranks(const Schedule& schedule, std::size_t count);

/// "forward", "backward", "optimizer", "launches", "updates", "all_reduce", "pull": what kind of
/// operation it is; empty for one that takes no time.
std::string operation_class(const Op& op);
/// Classes of the schedule's operations, in order of appearance.
std::vector<std::string> operation_classes(const Schedule& schedule);
/// The machine without the operations of a class: they join what they come after, without waiting
/// for other ranks.
void remove_operations(const std::string& operation_class, Machine& machine);

}  // namespace rehearse::inline explanation
