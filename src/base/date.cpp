#include "base/date.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace rehearse::inline base {
namespace {

/// The last second that a day of the calendar has: 31 December 9999.
constexpr std::int64_t kLastSecond = 253'402'300'799;

/// A number of exactly so many digits at the beginning of a text, which loses them.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int number = 0;
  for (const char digit : text.substr(0, count)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  text.remove_prefix(count);
  return number;
}

/// "-07": the first that stands for a missing one.
std::optional<unsigned> take_part(std::string_view& text) {
  if (text.empty()) return 1;
  if (!text.starts_with('-')) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<int> part = take_digits(text, 2);
  return part ? std::optional(static_cast<unsigned>(*part)) : std::nullopt;
}

}  // namespace

std::optional<std::chrono::sys_days> first_day(const std::string& date) {
  std::string_view rest = date;
  const std::optional<int> year = take_digits(rest, 4);
  if (!year) return std::nullopt;
  const std::optional<unsigned> month = take_part(rest);
  const std::optional<unsigned> day = take_part(rest);
  if (!month || !day || !rest.empty()) return std::nullopt;
  const std::chrono::year_month_day whole{std::chrono::year(*year), std::chrono::month(*month),
                                          std::chrono::day(*day)};
  return whole.ok() ? std::optional(std::chrono::sys_days(whole)) : std::nullopt;
}

std::chrono::sys_days today() {
  using std::chrono::days, std::chrono::seconds, std::chrono::system_clock;
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  if (given == nullptr) return std::chrono::floor<days>(system_clock::now());
  const std::string_view text = given;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0 || count > kLastSecond)
    throw InputError(fmt::format(
        "rehearse: error: SOURCE_DATE_EPOCH is \"{}\", no number of seconds since 1970\n"
        "remedy: unset it, or set it to one, as date +%s prints it",
        text));
  return std::chrono::floor<days>(std::chrono::sys_seconds(seconds(count)));
}

}  // namespace rehearse::inline base
