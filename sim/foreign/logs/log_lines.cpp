#include "foreign/logs/log_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>

#include "base/number.hpp"
#include "config/text_source.hpp"

namespace rehearse::inline foreign {
namespace {

std::string without_colours(const std::string& line) {
  if (line.find("\x1b[") == std::string::npos) return line;
  std::string plain;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t escape = std::min(line.find("\x1b[", at), line.size());
    plain.append(line, at, escape - at);
    const std::size_t end = line.find('m', escape);
    if (end == std::string::npos) return plain;
    at = end + 1;
  }
  return plain;
}

/// The digits behind a label, with commas between thousands, and what follows them.
struct Digits {
  std::string text;
  std::size_t end = 0;
};

Digits digits_behind(const std::string& line, std::size_t from) {
  const std::size_t begin = line.find_first_not_of(" \t=:'\"", from);
  Digits digits{.text = {}, .end = begin == std::string::npos ? line.size() : begin};
  for (; digits.end < line.size(); ++digits.end) {
    const char c = line[digits.end];
    const bool part = std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' ||
                      c == '-' || ((c == 'e' || c == 'E') && !digits.text.empty());
    if (c == ',' && digits.end + 1 < line.size() &&
        std::isdigit(static_cast<unsigned char>(line[digits.end + 1])) != 0)
      continue;
    if (!part) break;
    digits.text += c;
  }
  return digits;
}

}  // namespace

bool Lines::next(std::string& line) {
  if (at_ >= text_.size()) return false;
  const std::size_t end = std::min(text_.find_first_of("\r\n", at_), text_.size());
  line.assign(text_.substr(at_, end - at_));
  if (begins_) ++number_;
  const bool returns = text_.substr(end).starts_with('\r');
  begins_ = !returns || text_.substr(end).starts_with("\r\n");
  at_ = end + (returns && begins_ ? 2 : 1);
  line = without_colours(line);
  return true;
}

void Lines::fail(const std::string& line, std::size_t byte, const std::string& message) const {
  auto source = std::make_shared<TextSource>();
  source->name = name_;
  const std::size_t before = std::max<std::size_t>(number_, 1) - 1;
  source->lines.assign(before, "");
  source->lines.push_back(line);
  fail_at({source, before, byte}, message);
}

std::optional<double> labelled(const Lines& lines, const std::string& line, std::string_view label,
                               bool may_be_none) {
  const std::size_t at = line.find(label);
  if (at == std::string::npos) return std::nullopt;
  const Digits digits = digits_behind(line, at + label.size());
  std::optional<double> number = decimal_number(digits.text);
  // nanotron's and OLMo's suffixes.
  const char suffix = digits.end < line.size() ? line[digits.end] : ' ';
  if (number && (suffix == 'K' || suffix == 'M') &&
      (digits.end + 1 >= line.size() ||
       std::isalpha(static_cast<unsigned char>(line[digits.end + 1])) == 0))
    number = *number * (suffix == 'K' ? 1e3 : 1e6);
  if (number && may_be_none && *number == 0) return std::nullopt;
  if (!number || *number <= 0 || !std::isfinite(*number))
    lines.fail(line, at, fmt::format("no number above 0 behind \"{}\"", label));
  return number;
}

/// A clock of whole seconds is off by a tenth over ten of them.
void Progress::tell(double count, double total, double seconds) {
  constexpr double kLongEnough = 10;
  if (total != total_ || count < count_ || seconds < seconds_) {
    count_ = count;
    seconds_ = seconds;
    total_ = total;
  }
  if (count <= count_ || seconds - seconds_ < kLongEnough) return;
  times_.push_back((seconds - seconds_) / (count - count_));
  count_ = count;
  seconds_ = seconds;
}

}  // namespace rehearse::inline foreign
