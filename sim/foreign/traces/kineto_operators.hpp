#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreign/traces/kineto.hpp"

namespace rehearse::inline foreign {

constexpr std::uint32_t kNoPlace = static_cast<std::uint32_t>(-1);

/// Numbers of entries from 0 on, in the order of what `key` gives.
template <class Key>
std::vector<std::uint32_t> ordered(std::size_t count, const Key& key) {
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, key);
  return order;
}

/// An operator that no other one encloses.
struct Outermost {
  double begin = 0;
  float duration = 0;
  std::uint32_t name = 0;
  std::int64_t tie = -1;  ///< of the first operator within that has one
  std::uint32_t thread = 0;
  /// Its own in the step's forward pass, or its forward operator's.
  std::uint32_t place = kNoPlace;

  double end() const { return begin + static_cast<double>(duration); }
};

struct Operators {
  std::vector<Outermost> all;  ///< thread by thread, each in the order of time
  /// Elements of the parameter that AccumulateGrad adds up, by a number of `all`.
  std::unordered_map<std::uint32_t, std::int64_t> parameters;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> threads;  ///< parts of `all`
  std::vector<std::pair<double, double>> innermost;  ///< where Gloo ran, in the order of time
};

/// Outermost operators of a trace, without those of Gloo's own threads.
Operators outermost_of(const KinetoTrace& trace);

/// Where the steps of a trace without ProfilerStep# lie, and what told them.
struct TracedWindows {
  std::vector<TraceSpan> windows;
  std::string told_by;                ///< a sentence
  std::optional<double> last_ends{};  ///< what begins behind it is no step's
};
/// Steps end where the optimizer's do, or where a sequence of operators begins again. `optimizer`:
/// notes of Optimizer.step and zero_grad, in the order of time.
TracedWindows windows_of(const KinetoTrace& trace, const Operators& operators,
                         const std::vector<TraceSpan>& optimizer);

}  // namespace rehearse::inline foreign
