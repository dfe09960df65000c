#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/quantity.hpp"

namespace rehearse {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLine = std::chrono::seconds(10);

}  // namespace

Progress::Progress(bool quiet, const ProgressSpan& span)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), span_(span) {}

Progress::~Progress() {
  if (drawn_ && terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(double share_of_part, const std::string& now) {
  // Estimates of the whole may fall short by a rounding.
  const double share = std::min(1.0, span_.from + (span_.to - span_.from) * share_of_part);
  const Clock::time_point time = Clock::now();
  if (quiet_ || share <= 0 || time - shown_ < (terminal_ ? Clock::duration(kRedraw) : kLine)) {
    return;
  }
  shown_ = time;
  drawn_ = true;
  const Seconds spent(std::chrono::duration<double>(time - span_.begin).count());
  const std::string text = fmt::format("{:3.0f} %, {} left: {}", 100 * share,
                                       format(spent * ((1 - share) / share)), now);
  if (terminal_) {
    fmt::print(stderr, "\r{}\033[K", text);
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

}  // namespace rehearse
