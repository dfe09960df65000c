#include "base/stretch.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace rehearse::inline base {
namespace {

/// Kinds that are looked at, and how many of the next of a kind end a repeat.
constexpr std::size_t kKinds = 8, kAhead = 16;

/// Around `at`, where everything comes again after `period`.
Stretch around(const std::vector<std::uint64_t>& kinds, std::size_t at, std::size_t period) {
  std::size_t begin = at, end = at;
  while (begin > 0 && kinds[begin - 1] == kinds[begin - 1 + period]) --begin;
  while (end + period < kinds.size() && kinds[end] == kinds[end + period]) ++end;
  const auto number = [](std::size_t one) { return static_cast<std::uint32_t>(one); };
  return {number(begin), number(period), number((end + period - begin) / period)};
}

/// Places of each kind, the rarest first that come often enough: within a repeat they stand once or
/// a few times.
std::vector<std::vector<std::size_t>> rarest(const std::vector<std::uint64_t>& kinds,
                                             std::size_t least) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < kinds.size(); ++i) places[kinds[i]].push_back(i);
  std::vector<std::vector<std::size_t>> often;
  for (auto& [kind, at] : places)
    if (at.size() >= least) often.push_back(std::move(at));
  std::ranges::sort(often, [](const auto& a, const auto& b) {
    return std::pair(a.size(), a.front()) < std::pair(b.size(), b.front());
  });
  if (often.size() > kKinds) often.resize(kKinds);
  return often;
}

}  // namespace

std::optional<Stretch> longest_stretch(const std::vector<std::uint64_t>& kinds,
                                       std::uint32_t least_times) {
  Stretch best;
  for (const std::vector<std::size_t>& places : rarest(kinds, least_times)) {
    const std::size_t middle = places.size() / 2;
    for (std::size_t ahead = 1; ahead <= kAhead && middle + ahead < places.size(); ++ahead) {
      const Stretch one = around(kinds, places[middle], places[middle + ahead] - places[middle]);
      if (one.times >= least_times &&
          one.period * one.times > best.period * best.times + one.period)
        best = one;
    }
  }
  if (best.times < least_times) return std::nullopt;
  return best;
}

}  // namespace rehearse::inline base
