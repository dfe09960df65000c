#include "study/progress_bar.hpp"

#include <fmt/format.h>

#include "base/quantity.hpp"

namespace rehearse::inline study {
namespace {

constexpr std::size_t kBarColumns = 30;

}  // namespace

std::string progress_text(const SweepProgress& progress, Seconds elapsed) {
  const std::size_t full = progress.all == 0 ? 0 : kBarColumns * progress.done / progress.all;
  const char* const most = progress.at_most ? "at most " : "";
  std::string text =
      fmt::format("[{}{}] {} of {}{}", std::string(full, '#'), std::string(kBarColumns - full, '.'),
                  progress.done, most, progress.all);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  const bool alike = progress.to_simulate == 0;
  const std::size_t took = alike ? progress.done : progress.simulated,
                    all = alike ? progress.all : progress.to_simulate;
  if (took > 0 && took < all)
    text += fmt::format(
        ", {}{} left", most,
        format(elapsed * (static_cast<double>(all - took) / static_cast<double>(took))));
  return text;
}

void ProgressBar::show(const SweepProgress& progress) {
  if (!line_.due()) return;
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  line_.show(progress_text(progress, Seconds(elapsed.count())));
}

}  // namespace rehearse::inline study
