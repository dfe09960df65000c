#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

Progress::Progress(bool quiet, const ProgressSpan& span) : line_(quiet), span_(span) {}

void Progress::update(double share_of_part, const std::string& now) {
  // Estimates of the whole may fall short by a rounding.
  const double share = std::min(1.0, span_.from + (span_.to - span_.from) * share_of_part);
  if (share <= 0 || !line_.due()) return;
  const auto time = std::chrono::steady_clock::now();
  const Seconds spent(std::chrono::duration<double>(time - span_.begin).count());
  line_.show(fmt::format("{:3.0f} %, {} left: {}", 100 * share,
                         format(spent * ((1 - share) / share)), now));
}

}  // namespace rehearse::inline calibrate
