#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/progress_line.hpp"
#include "study/sweep.hpp"

namespace rehearse::inline study {

/// "[#####.....] 57 of 114, 2 failed, 12 s left": the bar in points, the time in simulations, each
/// as long as those of this sweep were until now (`elapsed`); without them, no time. Where nothing
/// is to be simulated, each point counts as one.
std::string progress_text(const SweepProgress& progress, Seconds elapsed);

/// progress_text() on a line of standard error.
class ProgressBar {
 public:
  explicit ProgressBar(bool quiet) : line_(quiet) {}

  void show(const SweepProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  ProgressLine line_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace rehearse::inline study
