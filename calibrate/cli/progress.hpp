#pragma once

#include <chrono>
#include <string>

namespace rehearse {

/// A line on standard error with the time left. On a terminal it is drawn over; elsewhere a line
/// comes every ten seconds.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` of the work is done, from 0 to 1, and `now` runs.
  void update(double share, const std::string& now);

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
};

}  // namespace rehearse
