#pragma once

#include <algorithm>
#include <chrono>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// A moment by which something must have happened; every wait in the server's protocol has one.
class Deadline {
 public:
  explicit Deadline(Seconds limit) : limit_(limit), end_(Clock::now() + duration(limit)) {}

  bool passed() const { return Clock::now() >= end_; }
  /// Time left as poll() takes it: whole milliseconds, rounded up, so that it is not called in
  /// vain.
  int left_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, kLongestPoll));
  }
  /// How long it was from the start; for messages.
  Seconds limit() const { return limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr long long kLongestPoll = 1'000'000'000;
  static Clock::duration duration(Seconds limit) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(limit.value()));
  }

  Seconds limit_;
  Clock::time_point end_;
};

}  // namespace rehearse::inline calibrate
