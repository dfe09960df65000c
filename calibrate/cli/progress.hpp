#pragma once

#include <chrono>
#include <string>

namespace rehearse {

/// Which part of a whole a line of progress is about: the whole began then, and the part takes it
/// from one share to another. Processes that are forked may go on with it.
struct ProgressSpan {
  double from = 0, to = 1;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

/// A line on standard error with the time left. On a terminal it is drawn over; elsewhere a line
/// comes every ten seconds.
class Progress {
 public:
  explicit Progress(bool quiet, const ProgressSpan& span = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` of the part is done, from 0 to 1, and `now` runs.
  void update(double share, const std::string& now);

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  ProgressSpan span_;
  Clock::time_point shown_ = Clock::now();
};

}  // namespace rehearse
