#include "convergence/pace.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace rehearse::inline convergence {

Seconds Pace::time_to(double samples) const {
  if (first_samples > 0) {
    const double first = std::min(samples, first_samples);
    return Seconds(first / first_samples_per_s + (samples - first) / samples_per_s);
  }
  const double updates = samples / samples_per_update;
  const auto known = static_cast<double>(applied.size());
  if (updates >= known) {
    const Seconds end = applied.empty() ? Seconds(0) : applied.back();
    return end + Seconds((samples - known * samples_per_update) / samples_per_s);
  }
  const auto done = static_cast<std::size_t>(updates);
  const double before = done > 0 ? applied[done - 1].value() : 0;
  return Seconds(std::lerp(before, applied[done].value(), updates - static_cast<double>(done)));
}

double Pace::samples_by(Seconds time) const {
  if (first_samples > 0) {
    const double first = std::min(time.value() * first_samples_per_s, first_samples);
    return first + (time.value() - first / first_samples_per_s) * samples_per_s;
  }
  const auto next = std::ranges::upper_bound(applied, time);
  const auto done = static_cast<double>(next - applied.begin());
  const Seconds before = next == applied.begin() ? Seconds(0) : *std::prev(next);
  const double since = (time - before).value();
  return next == applied.end() ? done * samples_per_update + since * samples_per_s
                               : (done + since / (*next - before).value()) * samples_per_update;
}

}  // namespace rehearse::inline convergence
