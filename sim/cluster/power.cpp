#include "cluster/power.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/number.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr std::array<std::pair<const char*, double>, 3> kUnits = {
    {{"W", 1}, {"kW", 1e3}, {"MW", 1e6}}};

/// Nothing where the text is no number with one of the units.
std::optional<double> watts_of(const std::string& text) {
  const auto number = leading_number(text);
  if (!number) return std::nullopt;
  std::string unit = text.substr(number->length);
  unit.erase(0, unit.find_first_not_of(' '));
  for (const auto& [name, scale] : kUnits) {
    if (unit == name) return number->value * scale;
  }
  return std::nullopt;
}

}  // namespace

std::string format(Watts power) {
  const double watts = power.value();
  std::size_t chosen = 0;
  while (chosen + 1 < kUnits.size() && std::abs(watts) >= 999.5 * kUnits[chosen].second) ++chosen;
  const double value = watts / kUnits[chosen].second;
  return fmt::format("{:.3g} {}", value, kUnits[chosen].first);
}

Watts read_watts(const Value& value) {
  const char* const expected =
      "expected a power above 0 with its unit, such as \"700W\" or \"1.2kW\"; got \"{}\"";
  if (!value.is_scalar()) value.fail(fmt::format(fmt::runtime(expected), value.shown()));
  const std::optional<double> watts = watts_of(value.as_string());
  if (!watts || !(*watts > 0) || !std::isfinite(*watts)) {
    value.fail(fmt::format(fmt::runtime(expected), value.shown()));
  }
  return Watts(*watts);
}

}  // namespace rehearse::inline cluster
