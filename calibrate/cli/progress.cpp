#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/quantity.hpp"

namespace rehearse {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLine = std::chrono::seconds(10);

}  // namespace

Progress::Progress(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), shown_(start_) {}

Progress::~Progress() {
  if (drawn_ && terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(double share, const std::string& now) {
  const Clock::time_point time = Clock::now();
  if (quiet_ || share <= 0 || time - shown_ < (terminal_ ? Clock::duration(kRedraw) : kLine)) {
    return;
  }
  shown_ = time;
  drawn_ = true;
  const Seconds spent(std::chrono::duration<double>(time - start_).count());
  const std::string text = fmt::format("{:3.0f} %, {} left: {}", 100 * share,
                                       format(spent * ((1 - share) / share)), now);
  if (terminal_) {
    fmt::print(stderr, "\r{}\033[K", text);
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

}  // namespace rehearse
