#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "study/sweep.hpp"

namespace rehearse {

/// "[#####.....] 57 of 114, 2 failed, 12 s left": the bar in points, the time in simulations, each
/// as long as those of this sweep were until now (`elapsed`); without them, no time.
std::string progress_text(const SweepProgress& progress, Seconds elapsed);

/// A line on standard error, rewritten in place at most ten times a second, and erased at the end.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown) : shown_(shown) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const SweepProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool shown_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_;
};

}  // namespace rehearse
