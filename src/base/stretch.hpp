#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rehearse::inline base {

/// Elements of a sequence that come again and again: `times` repeats of `period` elements from
/// `begin` on.
struct Stretch {
  std::uint32_t begin = 0, period = 0, times = 0;

  std::uint32_t end() const { return begin + period * times; }
  bool has(std::uint32_t at) const { return at >= begin && at < end(); }
  /// Which repeat an element of the stretch is in.
  std::uint32_t repeat_of(std::uint32_t at) const { return (at - begin) / period; }
};

/// The longest stretch of a sequence, of so many repeats at least; nothing: there is none. Elements
/// are told apart by their kinds. A repeat is sought that has some kind at most 16 times.
std::optional<Stretch> longest_stretch(const std::vector<std::uint64_t>& kinds,
                                       std::uint32_t least_times);

}  // namespace rehearse::inline base
