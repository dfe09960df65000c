#include "study/progress_bar.hpp"

#include <fmt/format.h>

#include "base/quantity.hpp"

namespace rehearse::inline study {
namespace {

constexpr std::size_t kBarColumns = 30;

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

void ProgressBar::show(const SweepProgress& progress) {
  if (!line_.due()) return;
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  line_.show(progress_text(progress, Seconds(elapsed.count())));
}

}  // namespace rehearse::inline study
