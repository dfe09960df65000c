#pragma once

#include <optional>
#include <vector>

#include "base/stretch.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline engine {

/// The longest stretch of a program's operations, of so many repeats at least: each repeat does
/// what the one before it does, after what stands as far before it. Nothing: there is none, or what
/// repeats waits for another iteration, for an event or for a queue.
std::optional<Stretch> longest_stretch(const Program& program, std::uint32_t least_times);

/// By program, where all ranks go through theirs alike: members of a group issue equally many
/// collectives in a repeat. Empty: ranks do not, or some program repeats nothing.
std::vector<Stretch> stretches_of(const Schedule& schedule, std::uint32_t least_times);

}  // namespace rehearse::inline engine
