#pragma once

#include <chrono>
#include <string>

#include "base/progress_line.hpp"

namespace rehearse::inline calibrate {

/// Which part of a whole a line of progress is about: the whole began then, and the part takes it
/// from one share to another. Processes that are forked may go on with it.
struct ProgressSpan {
  double from = 0, to = 1;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

/// A line on standard error with the time left.
class Progress {
 public:
  explicit Progress(bool quiet, const ProgressSpan& span = {});

  /// `share` of the part is done, from 0 to 1, and `now` runs.
  void update(double share, const std::string& now);

 private:
  ProgressLine line_;
  ProgressSpan span_;
};

}  // namespace rehearse::inline calibrate
