#include "base/quantity.hpp"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "base/corrected_unit.hpp"
#include "base/number.hpp"

namespace rehearse::inline base {

namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr double kBit = 0.125;  // in bytes
constexpr double kKibi = 1024.0;

constexpr Unit kSubSecondUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kTimeUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                               {"min", 60},  {"h", 3600},  {"d", 86400}};
constexpr Unit kBinaryUnits[] = {{"B", 1},
                                 {"KiB", kKibi},
                                 {"MiB", kKibi* kKibi},
                                 {"GiB", kKibi* kKibi* kKibi},
                                 {"TiB", kKibi* kKibi* kKibi* kKibi},
                                 {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kSizeUnits[] = {{"B", 1},
                               {"kB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", kKibi},
                               {"MiB", kKibi* kKibi},
                               {"GiB", kKibi* kKibi* kKibi},
                               {"TiB", kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kBitUnits[] = {
    {"b", kBit}, {"kb", kBit * 1e3}, {"Mb", kBit * 1e6}, {"Gb", kBit * 1e9}, {"Tb", kBit * 1e12}};
constexpr Unit kRateUnits[] = {{"B/s", 1},    {"kB/s", 1e3},  {"MB/s", 1e6},
                               {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}};
constexpr Unit kFlopUnits[] = {{"FLOP", 1},     {"kFLOP", 1e3},  {"MFLOP", 1e6},
                               {"GFLOP", 1e9},  {"TFLOP", 1e12}, {"PFLOP", 1e15},
                               {"EFLOP", 1e18}, {"ZFLOP", 1e21}, {"YFLOP", 1e24}};

// --- format

double round_to_three_digits(double value) {
  if (value == 0 || value >= 1000) return std::round(value);
  const double step = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::round(value / step) * step;
}

std::string three_digits(double value) {
  const double rounded = round_to_three_digits(value);
  if (rounded >= 100) return fmt::format("{:.0f}", rounded);
  if (rounded >= 10) return fmt::format("{:.1f}", rounded);
  if (rounded >= 1) return fmt::format("{:.2f}", rounded);
  return fmt::format("{:.3g}", rounded);
}

/// In the largest unit that leaves a number of at least 1 once it is rounded, so that 999.9 us
/// is 1.00 ms.
std::string in_suitable_unit(double value, std::span<const Unit> units) {
  const std::string_view base_unit = units[0].scale < 1 ? units.back().name : units[0].name;
  if (!std::isfinite(value) || value == 0) return fmt::format("{} {}", value + 0.0, base_unit);
  if (value < 0) return "-" + in_suitable_unit(-value, units);
  std::size_t chosen = 0;
  while (chosen + 1 < units.size()) {
    const double step = units[chosen + 1].scale / units[chosen].scale;
    if (round_to_three_digits(value / units[chosen].scale) < step * (1 - 1e-12)) break;
    ++chosen;
  }
  const double number = value / units[chosen].scale;
  if (number >= 1e6) return fmt::format("{:.3g} {}", number, units[chosen].name);
  return fmt::format("{} {}", three_digits(number), units[chosen].name);
}

// --- parse

/// What a quantity is called and how it is written.
struct Kind {
  std::string_view name;      // "a time"
  std::string_view examples;  // "\"5us\" or \"1.5ms\""
  bool bare_zero;
  std::vector<std::pair<std::string, double>> units;
};

void append_units(Kind& kind, std::span<const Unit> units,
                  std::initializer_list<const char*> endings) {
  for (const char* ending : endings) {
    for (const Unit& unit : units)
      kind.units.emplace_back(std::string(unit.name) + ending, unit.scale);
  }
}

[[noreturn]] void reject(const Kind& kind, const std::string& text,
                         const std::string& reason = "") {
  throw std::invalid_argument(fmt::format("expected {} with its unit, such as {}; got \"{}\"{}",
                                          kind.name, kind.examples, text, reason));
}

std::string known_units(const Kind& kind) {
  std::string names;
  for (const auto& [name, scale] : kind.units) names += (names.empty() ? "" : ", ") + name;
  return " (units: " + names + ")";
}

double scale_of(const Kind& kind, const std::string& text, std::string_view unit) {
  for (const auto& [name, scale] : kind.units) {
    if (name == unit) return scale;
  }
  reject(kind, text, known_units(kind));
}

double parse(const Kind& kind, const std::string& text) {
  const auto number = leading_number(text);
  if (!number) reject(kind, text);
  std::size_t unit_at = number->length;
  while (unit_at < text.size() && text[unit_at] == ' ') ++unit_at;
  const std::string_view unit = std::string_view(text).substr(unit_at);
  if (unit.empty() && kind.bare_zero && number->value == 0) return 0;
  if (unit.empty()) reject(kind, text);
  const double scale = scale_of(kind, text, unit);
  // A division by 10^6 is exact where a product with 10^-6 is not: "5us" equals 5e-6.
  const double value = scale < 1 ? number->value / std::round(1 / scale) : number->value * scale;
  if (value < 0) {
    throw std::invalid_argument(
        fmt::format("expected {} of at least 0; got \"{}\"", kind.name, text));
  }
  if (!std::isfinite(value)) {
    throw std::invalid_argument(fmt::format("\"{}\" is too large for {}", text, kind.name));
  }
  return value;
}

Kind make_kind(Kind kind, std::span<const Unit> units, std::initializer_list<const char*> endings) {
  append_units(kind, units, endings);
  return kind;
}

Kind rate_kind() {
  Kind kind{"a data rate", "\"25Gbps\" or \"300GBps\"", false, {}};
  append_units(kind, kSizeUnits, {"ps", "/s"});
  append_units(kind, kBitUnits, {"ps", "it/s"});
  return kind;
}

const Kind& time_kind() {
  static const Kind kind =
      make_kind({"a time", "\"5us\" or \"1.5ms\"", true, {}}, kTimeUnits, {""});
  return kind;
}

const Kind& size_kind() {
  static const Kind kind =
      make_kind({"a size", "\"25MiB\" or \"80GB\"", true, {}}, kSizeUnits, {""});
  return kind;
}

const Kind& data_rate_kind() {
  static const Kind kind = rate_kind();
  return kind;
}

const Kind& arithmetic_rate_kind() {
  static const Kind kind =
      make_kind({"an arithmetic rate", "\"19.5TFLOPs\" or \"312TFLOP/s\"", false, {}}, kFlopUnits,
                {"s", "/s"});
  return kind;
}

// --- correct

/// A unit in one of the ways in which people write it: "Gbps" for "Gbit/s" and "Gbits/sec".
std::string plain(std::string unit) {
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"bits", "b"},    {"bit", "b"},      {"bytes", "B"}, {"byte", "B"},       {"FLOPS", "FLOPs"},
      {"seconds", "s"}, {"second", "s"},   {"secs", "s"},  {"sec", "s"},        {"minutes", "min"},
      {"mins", "min"},  {"minute", "min"}, {"hours", "h"}, {"hour", "h"},       {"hrs", "h"},
      {"hr", "h"},      {"days", "d"},     {"day", "d"},   {"FLOP/s", "FLOPs"}, {"/s", "ps"}};
  for (const auto& [written, meant] : kSpellings) {
    const std::size_t at = unit.find(written);
    if (at != std::string::npos) unit.replace(at, written.size(), meant);
  }
  return unit;
}

/// How many letters differ by their case alone; nothing where others do.
std::optional<int> case_distance(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return std::nullopt;
  int distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (lower(a[i]) != lower(b[i])) return std::nullopt;
    ++distance;
  }
  return distance;
}

std::string corrected(const Kind& kind, const std::string& text) {
  const auto number = leading_number(text);
  if (!number || number->value < 0) return "";
  const std::size_t unit_at = text.find_first_not_of(' ', number->length);
  if (unit_at == std::string::npos) return "";
  const std::string unit = plain(text.substr(unit_at));
  std::string best;
  std::optional<int> least;
  for (const auto& [name, scale] : kind.units) {
    const auto distance = case_distance(unit, plain(name));
    if (!distance || (least && *distance >= *least)) continue;
    best = name;
    least = distance;
  }
  return best.empty() ? "" : text.substr(0, number->length) + best;
}

}  // namespace

std::string format(Seconds time) {
  const double seconds = time.value();
  if (seconds < 0) return "-" + format(-time);
  if (!(seconds >= 59.95) || !std::isfinite(seconds))
    return in_suitable_unit(seconds, kSubSecondUnits);
  const double whole_seconds = std::round(seconds);
  if (whole_seconds < 3600) {
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(whole_seconds / 60),
                       std::fmod(whole_seconds, 60));
  }
  const double minutes = std::round(seconds / 60);
  if (minutes < 48 * 60)
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  const double hours = std::round(seconds / 3600);
  if (hours < 24e5)
    return fmt::format("{:.0f} d {:02.0f} h", std::floor(hours / 24), std::fmod(hours, 24));
  return fmt::format("{:.3g} d", hours / 24);
}

std::string format(Bytes size) {
  const double bytes = size.value();
  if (std::abs(bytes) < kKibi && bytes == std::round(bytes)) return fmt::format("{:.0f} B", bytes);
  return in_suitable_unit(bytes, kBinaryUnits);
}

std::string format(BytesPerSecond rate) { return in_suitable_unit(rate.value(), kRateUnits); }
std::string format(Flops work) { return in_suitable_unit(work.value(), kFlopUnits); }
std::string format(FlopsPerSecond rate) {
  return in_suitable_unit(rate.value(), kFlopUnits) + "/s";
}

Seconds parse_seconds(const std::string& text) { return Seconds(parse(time_kind(), text)); }

Bytes parse_bytes(const std::string& text) { return Bytes(parse(size_kind(), text)); }

BytesPerSecond parse_bytes_per_second(const std::string& text) {
  return BytesPerSecond(parse(data_rate_kind(), text));
}

Flops parse_flops(const std::string& text) {
  static const Kind kind =
      make_kind({"an amount of work", "\"4.1GFLOP\" or \"2TFLOP\"", false, {}}, kFlopUnits, {""});
  return Flops(parse(kind, text));
}

FlopsPerSecond parse_flops_per_second(const std::string& text) {
  return FlopsPerSecond(parse(arithmetic_rate_kind(), text));
}

std::string corrected_seconds(const std::string& text) { return corrected(time_kind(), text); }
std::string corrected_bytes(const std::string& text) { return corrected(size_kind(), text); }
std::string corrected_bytes_per_second(const std::string& text) {
  return corrected(data_rate_kind(), text);
}
std::string corrected_flops_per_second(const std::string& text) {
  return corrected(arithmetic_rate_kind(), text);
}

}  // namespace rehearse::inline base
