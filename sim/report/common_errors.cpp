#include "report/common_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace rehearse::inline report {
namespace {

/// The normal distribution's quantile at 95 %, where the upper end of a 90 % interval lies.
constexpr double kUpperEnd = 1.6448536269514722;

double square(double x) { return x * x; }

std::pair<double, double> shift_of(const ErrorShifts& side, const std::string& name) {
  const auto found = side.find(name);
  return found == side.end() ? std::pair(0.0, 0.0) : found->second;
}

}  // namespace

ErrorShifts shifts_of(const std::vector<ErrorSource>& sources) {
  ErrorShifts shifts;
  for (const ErrorSource& source : sources)
    shifts[source.name] = {std::log(source.low.step_time / source.best.step_time),
                           std::log(source.high.step_time / source.best.step_time)};
  return shifts;
}

ErrorShifts shifts_of(const std::vector<Mechanism>& mechanisms) {
  ErrorShifts shifts;
  for (const Mechanism& one : mechanisms) shifts[one.name] = {-one.width(), std::log(one.upper())};
  return shifts;
}

Ends<double> together(const ErrorShifts& first, const ErrorShifts& second) {
  if (first == second) return {0, 0};
  std::set<std::string> names;
  for (const ErrorShifts* side : {&first, &second})
    for (const auto& [name, shift] : *side) names.insert(name);
  double below = 0, above = 0;
  for (const std::string& name : names) {
    const auto a = shift_of(first, name), b = shift_of(second, name);
    if (name == kOwnError) {
      below += square(b.first) + square(a.second);
      above += square(b.second) + square(a.first);
      continue;
    }
    const double low = b.first - a.first, high = b.second - a.second;
    below += square(std::min({low, high, 0.0}));
    above += square(std::max({low, high, 0.0}));
  }
  return {-std::sqrt(below), std::sqrt(above)};
}

double chance_above_one(double ratio, const Ends<double>& interval) {
  const double off = std::log(ratio);
  // What lies between the best estimate and 1 decides, so the end on that side counts.
  const double width = std::log(off >= 0 ? ratio / interval.low : interval.high / ratio);
  if (width <= 0) return off > 0 ? 1 : off < 0 ? 0 : 0.5;
  return 0.5 * std::erfc(-off / width * kUpperEnd / std::sqrt(2.0));
}

std::string chance_words(double chance) {
  if (chance > 0.99) return "over 99 %";
  if (chance < 0.01) return "under 1 %";
  return fmt::format("{:.0f} %", 100 * chance);
}

}  // namespace rehearse::inline report
