#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreign/kineto.hpp"

namespace rehearse::inline foreign {

enum class TracedPhase : std::uint8_t { forward, backward, optimizer };

/// A piece of a device's work, and the operator that it belongs to.
struct TracedWork {
  double begin = 0, end = 0;  ///< microseconds
  TracedPhase phase = TracedPhase::forward;
  std::size_t place = 0;  ///< of its operator in the step's forward pass
};

/// One step of a trace.
struct TracedStep {
  double begin = 0, end = 0;           ///< of the device, microseconds
  std::vector<TracedWork> work;        ///< in the order of time
  std::vector<std::uint32_t> forward;  ///< names of the forward pass' outermost operators
  /// By their place in the forward pass, elements of parameters.
  std::vector<std::vector<std::int64_t>> parameters;
};

/// Steps of `ProfilerStep#`, or the whole trace as one. InputError where the trace has no work.
std::vector<TracedStep> steps_of(const KinetoTrace& trace);

/// What repeats in a list: `period` entries `count` times from `first` on. A count of 0: nothing
/// repeats over a third of the list.
struct Repeats {
  std::size_t first = 0, period = 0, count = 0;
};
Repeats repeats_of(const std::vector<std::uint32_t>& list);

}  // namespace rehearse::inline foreign
