#include "base/number.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace rehearse::inline base {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

bool starts_like_a_decimal(std::string_view text) {
  const std::size_t integer_end = skip_digits(text, 0);
  if (integer_end > 1 && text[0] == '0') return false;
  if (integer_end > 0)
    return !(text[0] == '0' && text.size() > 1 && (text[1] == 'x' || text[1] == 'X'));
  return text.size() > 1 && text[0] == '.' && is_digit(text[1]);
}

}  // namespace

std::optional<LeadingNumber> leading_number(std::string_view text) {
  const bool has_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  const std::string_view unsigned_text = text.substr(has_sign ? 1 : 0);
  if (!starts_like_a_decimal(unsigned_text)) return std::nullopt;
  double value = 0;
  const char* begin = unsigned_text.data();
  const auto [end, error] = std::from_chars(begin, begin + unsigned_text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  // "5." is no number in our files: a point is followed by a digit.
  if (end[-1] == '.') return std::nullopt;
  // No negative zero: it would be printed as "-0".
  if (has_sign && text[0] == '-' && value != 0) value = -value;
  return LeadingNumber{value, static_cast<std::size_t>(end - text.data())};
}

std::optional<double> decimal_number(std::string_view text) {
  const auto number = leading_number(text);
  if (!number || number->length != text.size()) return std::nullopt;
  return number->value;
}

}  // namespace rehearse::inline base
