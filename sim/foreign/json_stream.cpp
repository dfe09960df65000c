#include "foreign/json_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/printable.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 18;
constexpr std::size_t kMostToken = std::size_t{1} << 26;
constexpr std::size_t kMostDepth = 200;

/// Bytes that a string may have without an escape, by their value.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t i = 0x20; i < plain.size(); ++i) plain[i] = i != '"' && i != '\\';
  return plain;
}();

bool is_plain(char c) { return kPlain[static_cast<unsigned char>(c)]; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = utf8_sequence(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

void append_utf8(std::string& text, unsigned code) {
  const auto put = [&](unsigned byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

JsonStream::JsonStream(More more, Wrong wrong)
    : more_(std::move(more)), wrong_(std::move(wrong)), buffer_(kWindow) {
  at_ = end_ = buffer_.data();
}

void JsonStream::fail(const std::string& message) const {
  throw wrong_(passed_ + static_cast<std::size_t>(at_ - buffer_.data()), message);
}

/// Reads on, a token's begin moved to the front; false at the end.
bool JsonStream::more_bytes() {
  const char* from = keep_ != nullptr ? keep_ : at_;
  const auto kept = static_cast<std::size_t>(end_ - from);
  const auto offset = static_cast<std::size_t>(at_ - from);
  if (kept > kMostToken) fail(fmt::format("a text of more than {} bytes", kMostToken));
  passed_ += static_cast<std::size_t>(from - buffer_.data());
  if (2 * kept > buffer_.size()) {
    std::vector<char> larger(2 * buffer_.size());
    std::copy_n(from, kept, larger.data());
    buffer_.swap(larger);
  } else {
    std::memmove(buffer_.data(), from, kept);
  }
  if (keep_ != nullptr) keep_ = buffer_.data();
  at_ = buffer_.data() + offset;
  const std::size_t got = more_(buffer_.data() + kept, buffer_.size() - kept);
  end_ = buffer_.data() + kept + got;
  return got > 0;
}

char JsonStream::at_end(const char* what) {
  if (!more_bytes()) fail(fmt::format("the file ends where {} is wanted", what));
  return *at_;
}

/// The next character, white space passed.
char JsonStream::peek() {
  for (;;) {
    while (at_ != end_ && is_space(*at_)) ++at_;
    if (at_ != end_) return *at_;
    at_end("more");
  }
}

/// The next character, whatever it is.
char JsonStream::following() { return at_ != end_ ? *at_ : at_end("more of a value"); }

void JsonStream::expect(char wanted, const char* what) {
  if (peek() != wanted) fail(fmt::format("{} is wanted", what));
  ++at_;
}

char JsonStream::next() {
  const char c = peek();
  if (std::string_view("{[\"-tfn").find(c) == std::string_view::npos && !is_digit(c))
    fail("a value is wanted");
  return c;
}

void JsonStream::open() {
  const char c = next();
  if (c != '{' && c != '[') fail("an object or a list is wanted");
  ++at_;
  if (nested_.size() == kMostDepth) fail(fmt::format("nested deeper than {} levels", kMostDepth));
  nested_.push_back(Place::first);
}

/// Passes the comma in front of all but the first; false at the end, which it passes.
bool JsonStream::separated(char closing) {
  const bool is_first = std::exchange(nested_.back(), Place::later) == Place::first;
  const char c = peek();
  if (c == closing) {
    ++at_;
    nested_.pop_back();
    return false;
  }
  if (is_first) return true;
  if (c != ',') fail(fmt::format("a comma or {} is wanted", closing));
  ++at_;
  return true;
}

bool JsonStream::member(std::string_view& key) {
  if (!separated('}')) return false;
  if (peek() != '"') fail("a key is wanted");
  // The key stays in the window until its value is reached.
  key = string();
  const bool is_scratch = key.data() == scratch_.data();
  const std::size_t length = key.size();
  if (!is_scratch) keep_ = key.data();
  expect(':', "a colon");
  peek();
  if (!is_scratch) key = {std::exchange(keep_, nullptr), length};
  return true;
}

bool JsonStream::element() {
  if (!separated(']')) return false;
  next();
  return true;
}

void JsonStream::hexadecimal(unsigned& code) {
  code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = following();
    const char lower = static_cast<char>(c | 0x20);
    if (!is_digit(c) && (lower < 'a' || lower > 'f')) fail("four hexadecimal digits are wanted");
    code = 16 * code + static_cast<unsigned>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    ++at_;
  }
}

/// Undoes an escape, whose backslash has been passed.
void JsonStream::escape() {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char c = following();
  ++at_;
  if (const std::size_t which = kNames.find(c); which != std::string_view::npos) {
    scratch_ += kMeanings[which];
    return;
  }
  if (c != 'u') fail("no such escape");
  unsigned code = 0, low = 0;
  hexadecimal(code);
  if (code >= 0xdc00 && code < 0xe000) fail("half a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    if (following() != '\\' || (++at_, following()) != 'u') fail("half a surrogate pair");
    ++at_;
    hexadecimal(low);
    if (low < 0xdc00 || low >= 0xe000) fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(scratch_, code);
}

std::string_view JsonStream::string() {
  expect('"', "a string");
  keep_ = at_;
  bool has_escapes = false;
  for (;;) {
    while (at_ != end_ && is_plain(*at_)) ++at_;
    if (at_ == end_) {
      at_end("the end of a string");
      continue;
    }
    if (*at_ != '"' && *at_ != '\\') fail("a control character in a string");
    std::string_view piece(keep_, static_cast<std::size_t>(at_ - keep_));
    if (!is_utf8(piece)) fail("a string that is no UTF-8");
    if (*at_ == '"') {
      ++at_;
      keep_ = nullptr;
      return has_escapes ? std::string_view(scratch_ += piece) : piece;
    }
    if (!has_escapes) scratch_.clear();
    has_escapes = true;
    if (scratch_.size() > kMostToken) fail(fmt::format("a text of more than {} bytes", kMostToken));
    scratch_ += piece;
    keep_ = nullptr;
    ++at_;
    escape();
    keep_ = at_;
  }
}

void JsonStream::skip_string() {
  ++at_;
  for (;;) {
    while (at_ != end_ && is_plain(*at_)) ++at_;
    if (at_ == end_) {
      at_end("the end of a string");
    } else if (*at_ == '"') {
      ++at_;
      return;
    } else if (*at_ != '\\') {
      fail("a control character in a string");
    } else {
      ++at_;
      scratch_.clear();
      escape();
    }
  }
}

/// The text of a number, which stays in the window until more is read.
std::string_view JsonStream::number_token() {
  // A number may be the last of the file.
  const auto here = [&] { return at_ != end_ || more_bytes() ? *at_ : '\0'; };
  const auto digits = [&] {
    if (!is_digit(here())) fail("a digit is wanted");
    while (is_digit(here())) ++at_;
  };
  peek();
  keep_ = at_;
  if (here() == '-') ++at_;
  if (here() == '0')
    ++at_;
  else
    digits();
  if (here() == '.') {
    ++at_;
    digits();
  }
  if (here() == 'e' || here() == 'E') {
    ++at_;
    if (here() == '+' || here() == '-') ++at_;
    digits();
  }
  const char* begin = std::exchange(keep_, nullptr);
  return {begin, static_cast<std::size_t>(at_ - begin)};
}

double JsonStream::number() {
  const std::string_view token = number_token();
  double value = 0;
  if (std::from_chars(token.data(), token.data() + token.size(), value).ec != std::errc())
    fail("a number out of range");
  return value;
}

void JsonStream::literal(std::string_view word) {
  for (const char c : word) {
    if (following() != c) fail(fmt::format("{} is wanted", word));
    ++at_;
  }
}

void JsonStream::skip() {
  switch (next()) {
    case '"':
      return skip_string();
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    case '[':
      open();
      while (element()) skip();
      return;
    case '{':
      open();
      while (separated('}')) {
        if (peek() != '"') fail("a key is wanted");
        skip_string();
        expect(':', "a colon");
        skip();
      }
      return;
    default:
      number_token();
  }
}

void JsonStream::end() {
  for (;;) {
    while (at_ != end_ && is_space(*at_)) ++at_;
    if (at_ != end_) fail("the value has ended, and more follows");
    if (!more_bytes()) return;
  }
}

}  // namespace rehearse::inline foreign
