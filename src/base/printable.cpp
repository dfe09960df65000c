#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace rehearse::inline base {
namespace {

std::uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7fu >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

bool is_within(std::uint32_t code, std::uint32_t first, std::uint32_t last) {
  return first <= code && code <= last;
}

/// The length of a colour's escape sequence at the front of `text`; 0 if there is none.
std::size_t colour_sequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](std::size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4 || !tail(1)) return 0;
  if (lead < 0xe0) return 2;
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f) || !tail(2)) return 0;
  if (lead < 0xf0) return 3;
  if ((lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f) || !tail(3)) return 0;
  return 4;
}

bool is_unprintable(std::string_view text) {
  const std::uint32_t code = code_point(text.substr(0, utf8_sequence(text)));
  if (code == '\t' || code == '\n') return false;
  return code < 0x20 || is_within(code, 0x7f, 0x9f) || is_within(code, 0x2028, 0x202e) ||
         is_within(code, 0x2066, 0x2069);
}

namespace {

/// One character, or a byte that is none.
std::string escaped_character(std::string_view one) {
  const bool is_character = utf8_sequence(one) > 0;
  if (is_character && !is_unprintable(one)) return std::string(one);
  return one.size() == 1 ? fmt::format("\\x{:02x}", static_cast<unsigned char>(one.front()))
                         : fmt::format("\\u{:04x}", code_point(one));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t colour = colour_sequence(text);
    const std::size_t length = colour > 0 ? colour : std::max<std::size_t>(1, utf8_sequence(text));
    const std::string_view one = text.substr(0, length);
    shown += colour > 0 ? std::string(one) : escaped_character(one);
    text.remove_prefix(length);
  }
  return shown;
}

std::string escaped(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence(text));
    shown += escaped_character(text.substr(0, length));
    text.remove_prefix(length);
  }
  return shown;
}

void tell(std::string_view text) { draw(printable(text)); }

void draw(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace rehearse::inline base
