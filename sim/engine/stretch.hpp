#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse::inline engine {

/// Operations of a program that come again and again, as those of micro-batches do: `times` repeats
/// of `period` operations from `begin` on. Each repeat does what the one before it does, after what
/// stands as far before it.
struct Stretch {
  std::uint32_t begin = 0, period = 0, times = 0;

  std::uint32_t end() const { return begin + period * times; }
  bool has(std::uint32_t op) const { return op >= begin && op < end(); }
  /// Which repeat an operation of the stretch is in.
  std::uint32_t repeat_of(std::uint32_t op) const { return (op - begin) / period; }
};

/// The longest one of a program, of so many repeats at least; nothing: there is none, or what
/// repeats waits for another iteration, for an event or for a queue.
std::optional<Stretch> longest_stretch(const Program& program, std::uint32_t least_times);

/// By program, where all ranks go through theirs alike: members of a group issue equally many
/// collectives in a repeat. Empty: ranks do not, or some program repeats nothing.
std::vector<Stretch> stretches_of(const Schedule& schedule, std::uint32_t least_times);

}  // namespace rehearse::inline engine
