#pragma once

#include <chrono>
#include <string_view>

namespace rehearse::inline base {

/// A line on standard error that says what goes on. On a terminal it is drawn over, and erased at
/// the end; elsewhere there is one every five seconds.
class ProgressLine {
 public:
  /// Nothing is shown where `quiet`, nor of what takes less than half a second.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether show() would show a text now: five times a second.
  bool due() const;
  void show(std::string_view text);

 private:
  using Clock = std::chrono::steady_clock;

  enum class Form { none, drawn, lines } form_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace rehearse::inline base
