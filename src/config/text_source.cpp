#include "config/text_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline config {

namespace {

constexpr std::size_t kShownColumns = 80;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kCut = "...";

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::size_t count_code_points(std::string_view text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues_code_point));
}

std::string_view first_code_points(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size() && (count > 0 || continues_code_point(text[end]))) {
    if (!continues_code_point(text[end])) --count;
    ++end;
  }
  while (end < text.size() && continues_code_point(text[end])) ++end;
  return text.substr(0, end);
}

/// Of the unprintable character at the front of `text`.
std::string unprintable_name(std::string_view text) {
  if (text[0] == '\0') return "a NUL byte; this is not a text file";
  if (text[0] == '\r') return "a carriage return that ends no line";
  const std::string shown = printable(text.substr(0, utf8_sequence(text)));
  return fmt::format("the control character {}{}", shown[1] == 'x' ? "0x" : "U+", shown.substr(2));
}

// Such a line is not shown: it could not be printed as it stands.
void check_line(const TextSource& source, std::size_t number, std::string_view line) {
  const auto fail = [&](std::size_t byte, const std::string& message) {
    throw InputError(fmt::format("{}:{}:{}: error: {}", source.name, number + 1,
                                 count_code_points(line.substr(0, byte)) + 1, message));
  };
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = utf8_sequence(line.substr(at));
    if (length == 0) fail(at, "invalid UTF-8; save the file as UTF-8 text");
    if (is_unprintable(line.substr(at))) fail(at, unprintable_name(line.substr(at)));
    at += length;
  }
}

/// The part of a line that is shown and the column (from 0) under which the caret stands.
struct Excerpt {
  std::string text;
  std::size_t caret;
};

Excerpt cut_around(std::string_view line, std::size_t column) {
  const std::size_t length = count_code_points(line);
  if (length <= kShownColumns) return {std::string(line), column};
  const std::size_t room = kShownColumns - kCut.size();
  std::size_t first = column > kShownColumns / 2 ? column - kShownColumns / 2 : 0;
  first = std::min(first, length - room);
  const bool cut_left = first > 0;
  const std::size_t shown = cut_left && first + room < length ? room - kCut.size() : room;
  const bool cut_right = first + shown < length;
  const std::string_view from_first = line.substr(first_code_points(line, first).size());
  return {fmt::format("{}{}{}", cut_left ? kCut : "", first_code_points(from_first, shown),
                      cut_right ? kCut : ""),
          column - first + (cut_left ? kCut.size() : 0)};
}

}  // namespace

std::shared_ptr<const TextSource> make_text_source(std::string_view text, const std::string& name,
                                                   const std::filesystem::path& folder) {
  if (text.size() > kMaxTextBytes)
    throw InputError(name + ": error: the file is larger than 16 MiB");
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  auto source = std::make_shared<TextSource>(TextSource{name, folder, {}});
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    check_line(*source, source->lines.size(), line);
    source->lines.emplace_back(line);
    begin = end + 1;
  }
  return source;
}

std::string joined(const TextSource& source, std::size_t skip) {
  std::string text = source.lines[0].substr(skip);
  for (std::size_t i = 1; i < source.lines.size(); ++i) text.append("\n").append(source.lines[i]);
  return text;
}

void fail_at(const TextPosition& place, const std::string& message, const std::string& remedy) {
  throw error_at(place, message, remedy);
}

PlacedError error_at(const TextPosition& place, const std::string& message,
                     const std::string& remedy) {
  const std::string& line = place.source->lines[place.line];
  const std::size_t column = count_code_points(std::string_view(line).substr(0, place.byte));
  Excerpt excerpt = cut_around(line, column);
  std::replace(excerpt.text.begin(), excerpt.text.end(), '\t', ' ');
  std::string text =
      fmt::format("{}:{}:{}: error: {}\n{}\n{:>{}}", place.source->name, place.line + 1, column + 1,
                  message, excerpt.text, "^", excerpt.caret + 1);
  if (!remedy.empty()) text += "\nremedy: " + remedy;
  return {place.source->name, place.line, place.byte, text};
}

}  // namespace rehearse::inline config
