#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "foreign/traces/kineto.hpp"

namespace rehearse::inline foreign {

enum class TracedPhase : std::uint8_t { forward, backward, optimizer };

/// A piece of a device's work, and the operator that it belongs to.
struct TracedWork {
  double begin = 0;    ///< microseconds
  float duration = 0;  ///< microseconds
  TracedPhase phase = TracedPhase::forward;
  std::uint32_t place = 0;  ///< of its operator in the step's forward pass

  double end() const { return begin + static_cast<double>(duration); }
};

/// One step of a trace.
struct TracedStep {
  double begin = 0, end = 0;     ///< of the device, microseconds
  std::vector<TracedWork> work;  ///< in the order of time
  /// Of a CPU's operators those without others within: between them the host may wait for Gloo.
  std::vector<std::pair<double, double>> innermost;
  std::vector<std::uint32_t> forward;  ///< names of the forward pass' outermost operators
  /// Places in the forward pass, and elements of a parameter that is used there.
  std::vector<std::pair<std::uint32_t, std::int64_t>> parameters;
};

/// Steps of a trace, and what told them where ProfilerStep# did not.
struct TracedSteps {
  std::vector<TracedStep> steps;
  std::string told_by;  ///< a sentence; empty: ProfilerStep#
};

/// Steps of `ProfilerStep#`; without these up to each end of Optimizer.step, else by the longest
/// sequence of operators that repeats, else the whole trace as one. InputError where the trace has
/// no work.
TracedSteps steps_of(const KinetoTrace& trace);

/// What repeats in a list: `period` entries `count` times from `first` on. A count of 0: nothing
/// repeats over a third of the list.
struct Repeats {
  std::size_t first = 0, period = 0, count = 0;
};
Repeats repeats_of(const std::vector<std::uint32_t>& list);

}  // namespace rehearse::inline foreign
