#include "foreign/marked_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace rehearse::inline foreign {
namespace {

/// A sum of whole numbers, as $((2 * (3 + 1))) has it.
class Sum {
 public:
  explicit Sum(std::string text) : text_(std::move(text)) {
    std::erase_if(text_, [](unsigned char c) { return std::isspace(c) != 0; });
  }
  std::optional<std::int64_t> value() {
    const auto sum = terms(0);
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  static constexpr std::int64_t kMost = 1'000'000'000'000'000;
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::optional<std::int64_t> terms(int depth) {
    auto sum = factors(depth);
    while (sum && (peek() == '+' || peek() == '-')) {
      const bool minus = text_[at_++] == '-';
      const auto next = factors(depth);
      sum = next ? bounded(minus ? *sum - *next : *sum + *next) : std::nullopt;
    }
    return sum;
  }
  std::optional<std::int64_t> factors(int depth) {
    auto product = factor(depth);
    while (product && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const char sign = text_[at_++];
      const auto next = factor(depth);
      if (!next || (sign != '*' && *next == 0)) return std::nullopt;
      if (sign != '*')
        product = sign == '/' ? *product / *next : *product % *next;
      else if (*next != 0 && std::abs(*product) > kMost / std::abs(*next))
        return std::nullopt;
      else
        product = *product * *next;
    }
    return product;
  }
  std::optional<std::int64_t> factor(int depth) {
    if (depth > 32) return std::nullopt;
    if (peek() == '(') {
      ++at_;
      const auto inner = terms(depth + 1);
      if (peek() != ')') return std::nullopt;
      ++at_;
      return inner;
    }
    std::int64_t number = 0;
    const std::size_t begin = at_;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0 && number < kMost)
      number = 10 * number + (text_[at_++] - '0');
    return at_ > begin ? std::optional(number) : std::nullopt;
  }
  static std::optional<std::int64_t> bounded(std::int64_t sum) {
    return std::abs(sum) < kMost ? std::optional(sum) : std::nullopt;
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> value_of_sum(const std::string& text) { return Sum(text).value(); }

MarkedText marked(const std::string& text, const MarkedChar& at) {
  MarkedText made(text.size(), at);
  for (std::size_t i = 0; i < text.size(); ++i) made[i].text = text[i];
  return made;
}

std::string plain(const MarkedText& text) {
  std::string made;
  for (const MarkedChar& one : text) made += one.text;
  return made;
}

std::vector<MarkedText> split(const MarkedText& text, bool at_quoted_blanks) {
  std::vector<MarkedText> words;
  bool inside = false;
  for (const MarkedChar& one : text) {
    const bool blank = one.text == ' ' || one.text == '\t' || one.text == '\n';
    if (blank && (at_quoted_blanks || !one.quoted)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    words.back().push_back(one);
  }
  return words;
}

}  // namespace rehearse::inline foreign
