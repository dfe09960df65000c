#include "view/digits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rehearse::inline view {
namespace {

double power_below(double value) { return std::pow(10, std::floor(std::log10(value) + 1e-12)); }

/// "35400" with commas between thousands; a fraction and a sign stay as they are.
std::string with_commas(std::string number) {
  const std::size_t first = number.starts_with('-') ? 1 : 0;
  for (std::size_t at = std::min(number.find('.'), number.size()); at > first + 3;) {
    at -= 3;
    number.insert(at, ",");
  }
  return number;
}

struct TimeUnit {
  const char* name;
  double seconds;
};

/// "3 d 09 h": a large unit and the next one, which is left out where it is finer than the place.
/// The small unit is counted to one, as tables do: one time has one figure in a report.
std::string in_two_units(double seconds, double place, const TimeUnit& large,
                         const TimeUnit& small) {
  if (place >= large.seconds * 0.999) {
    const double step = std::max(1.0, place / large.seconds);
    return fmt::format("{:.0f} {}", std::round(seconds / large.seconds / step) * step, large.name);
  }
  const auto smalls = std::llround(seconds / small.seconds);
  const auto each = static_cast<long long>(std::lround(large.seconds / small.seconds));
  return fmt::format("{} {} {:02} {}", smalls / each, large.name, smalls % each, small.name);
}

}  // namespace

double place_of(double value, const std::optional<Ends<double>>& interval) {
  const double size = std::abs(value);
  if (!(size > 0) || !std::isfinite(size)) return 1;
  const double first = power_below(size);
  const double half = interval ? (interval->high - interval->low) / 2 : 0;
  if (!(half > 0) || !std::isfinite(half)) return first / 100;
  return std::clamp(power_below(half) / 10, first / 1000, first);
}

std::string rounded(double value, double place) {
  const int decimals = std::max(0, static_cast<int>(std::lround(-std::log10(place))));
  return with_commas(fmt::format("{:.{}f}", std::round(value / place) * place, decimals));
}

std::string rounded(Seconds time, double place) {
  constexpr TimeUnit kMinute{"min", 60}, kHour{"h", 3600}, kDay{"d", 86400}, kSecond{"s", 1};
  const double seconds = time.value();
  if (seconds >= 48 * kHour.seconds) return in_two_units(seconds, place, kDay, kHour);
  if (seconds >= kHour.seconds) return in_two_units(seconds, place, kHour, kMinute);
  if (seconds >= kMinute.seconds) return in_two_units(seconds, place, kMinute, kSecond);
  constexpr std::array<TimeUnit, 4> kUnits{kSecond, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  const double shown = std::round(seconds / place) * place;
  const auto unit = std::ranges::find_if(
      kUnits, [&](const TimeUnit& one) { return shown >= one.seconds * (1 - 1e-9); });
  const TimeUnit& chosen = unit == kUnits.end() ? kUnits.back() : *unit;
  return rounded(seconds / chosen.seconds, place / chosen.seconds) + " " + chosen.name;
}

std::string short_count(double count) {
  struct Prefix {
    double scale;
    const char* name;
  };
  for (const Prefix& prefix : {Prefix{1e12, " T"}, Prefix{1e9, " B"}, Prefix{1e6, " M"}})
    if (count >= prefix.scale * 0.9995)
      return fmt::format("{:.3g}{}", count / prefix.scale, prefix.name);
  return rounded(count, std::max(1.0, place_of(count, {})));
}

}  // namespace rehearse::inline view
