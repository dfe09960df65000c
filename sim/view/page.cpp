#include "view/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/printable.hpp"

namespace rehearse::inline view {
namespace {

const char* ansi(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::strong:
      return "\x1b[1m";
    case Ink::faint:
      return "\x1b[2m";
    case Ink::good:
      return "\x1b[1;32m";
    case Ink::bad:
      return "\x1b[1;31m";
    case Ink::compute:
      return "\x1b[32m";
    case Ink::communication:
      return "\x1b[33m";
  }
  return "";
}

std::string spaces(std::size_t count) { return std::string(count, ' '); }

}  // namespace

std::size_t columns(std::string_view text) {
  // Bytes 10xxxxxx continue a character.
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string left(std::string_view text, std::size_t width) {
  return std::string(text) + spaces(width - std::min(width, columns(text)));
}

std::string right(std::string_view text, std::size_t width) {
  return spaces(width - std::min(width, columns(text))) + std::string(text);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!line.empty() && columns(line) + 1 + columns(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string bar(double share, std::size_t width) {
  static constexpr std::array kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::clamp(share, 0.0, 1.0);
  auto eighths = static_cast<std::size_t>(std::lround(clamped * 8 * static_cast<double>(width)));
  if (clamped > 0) eighths = std::max<std::size_t>(eighths, 1);
  std::string text;
  for (std::size_t block = 0; block < eighths / 8; ++block) text += "█";
  return text + kEighths[eighths % 8];
}

std::string sparkline(const std::vector<double>& values) {
  static constexpr std::array kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return "";
  const double largest = std::ranges::max(values);
  std::string text;
  for (const double value : values) {
    if (value <= 0) {
      text += "·";
    } else {
      text +=
          kHeights[static_cast<std::size_t>(std::lround(value / largest * (kHeights.size() - 1)))];
    }
  }
  return text;
}

std::string Page::ink(Ink ink, std::string_view text) const {
  if (!color_ || ink == Ink::plain || text.empty()) return std::string(text);
  return ansi(ink) + std::string(text) + "\x1b[0m";
}

void Page::line(std::string_view text) {
  std::string one = printable(text);
  std::ranges::replace(one, '\n', ' ');
  text_ += one + '\n';
}

void Page::paragraph(Ink color, std::string_view text) {
  for (const std::string& part : wrap(text, width_)) line(ink(color, part));
}

void Page::field(std::string_view name, std::string_view body) {
  const std::string padded = left(name, kNameColumns);
  line((name.empty() ? padded : ink(Ink::faint, padded)) + std::string(body));
}

void Page::wrapped_field(std::string_view name, Ink color, std::string_view text) {
  std::string_view label = name;
  for (const std::string& part : wrap(text, body_width())) {
    field(label, ink(color, part));
    label = "";
  }
}

}  // namespace rehearse::inline view
