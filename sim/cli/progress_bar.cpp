#include "cli/progress_bar.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/quantity.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kBarColumns = 30;
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

std::string progress_text(const SweepProgress& progress, Seconds elapsed) {
  const std::size_t full = progress.all == 0 ? 0 : kBarColumns * progress.done / progress.all;
  std::string text = fmt::format("[{}{}] {} of {}", std::string(full, '#'),
                                 std::string(kBarColumns - full, '.'), progress.done, progress.all);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  if (progress.simulated > 0 && progress.simulated < progress.to_simulate) {
    const double left = static_cast<double>(progress.to_simulate - progress.simulated) /
                        static_cast<double>(progress.simulated);
    text += fmt::format(", {} left", format(elapsed * left));
  }
  return text;
}

ProgressBar::~ProgressBar() {
  if (drawn_) draw("\r\033[K");
}

void ProgressBar::show(const SweepProgress& progress) {
  const auto now = Clock::now();
  if (!shown_ || (drawn_ && now - last_ < kPause)) return;
  const std::chrono::duration<double> elapsed = now - start_;
  draw("\r" + progress_text(progress, Seconds(elapsed.count())) + "\033[K");
  drawn_ = true;
  last_ = now;
}

}  // namespace rehearse
