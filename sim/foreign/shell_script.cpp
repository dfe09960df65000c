#include "foreign/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

/// Variables that name each other may grow without end.
constexpr std::size_t kMostText = std::size_t{1} << 18;
constexpr std::size_t kMostInAll = std::size_t{1} << 24;

/// Words before a command or an assignment that change nothing of it.
bool is_before(const std::string& word) {
  return word == "then" || word == "else" || word == "do" || word == "export" || word == "local" ||
         word == "declare" || word == "readonly" || word == "{" || word == "!";
}

}  // namespace

bool ShellScript::is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

ShellScript::ShellScript(std::shared_ptr<const TextSource> source) : source_(std::move(source)) {
  Words words;
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      read_comment();
    } else if (c == '\n' || c == ';' || c == '|' || c == '&') {
      end_command(words, c == peek(1) ? c : ';');
      advance();
      if (c == '\n') skip_documents();
    } else if (c == '<' && peek(1) == '<' && peek(2) != '<') {
      read_document_end();
    } else if (c == ' ' || c == '\t' || c == '(' || c == ')') {
      advance();
    } else if (c == '\\' && peek(1) == '\n') {
      advance();
      advance();
    } else {
      read_word(words);
    }
  }
  end_command(words, ';');
}

char ShellScript::peek(std::size_t ahead) const {
  if (at_end()) return '\0';
  const std::string& text = source_->lines[line_];
  const std::size_t at = byte_ + ahead;
  return at < text.size() ? text[at] : at == text.size() ? '\n' : '\0';
}

MarkedChar ShellScript::here(char text, bool quoted) const {
  return {.text = text,
          .quoted = quoted,
          .line = static_cast<std::uint32_t>(line_),
          .byte = static_cast<std::uint32_t>(byte_),
          .condition = condition()};
}

void ShellScript::advance() {
  if (byte_ < source_->lines[line_].size()) {
    ++byte_;
    return;
  }
  ++line_;
  byte_ = 0;
}

void ShellScript::read_comment() {
  const std::string text = source_->lines[line_].substr(byte_);
  if (text.starts_with("#SBATCH")) {
    MarkedText options;
    for (std::size_t i = 7; i < text.size(); ++i) {
      MarkedChar one = here(text[i], false);
      one.byte += static_cast<std::uint32_t>(i);
      options.push_back(one);
    }
    batch_options_.push_back(split(options));
  }
  byte_ = source_->lines[line_].size();
}

/// `<<EOF`, `<<-'EOF'`: what follows on the next lines is no command.
void ShellScript::read_document_end() {
  advance();
  advance();
  std::string end;
  while (peek() == '-' || peek() == ' ' || peek() == '\t') advance();
  while (is_name(peek()) || peek() == '"' || peek() == '\'' || peek() == '\\') {
    if (is_name(peek())) end += peek();
    advance();
  }
  document_ends_.push_back(end);
}

void ShellScript::skip_documents() {
  for (const std::string& end : document_ends_)
    while (!at_end()) {
      const std::string& line = source_->lines[line_];
      const std::size_t first = line.find_first_not_of('\t');
      const bool is_end = first != std::string::npos && line.compare(first, line.size(), end) == 0;
      ++line_;
      byte_ = 0;
      if (is_end) break;
    }
  document_ends_.clear();
}

void ShellScript::check_size(std::size_t bytes) const {
  if (bytes > kMostText)
    fail_at({source_, std::min(line_, source_->lines.size() - 1), 0},
            fmt::format("variables of more than {} bytes", kMostText));
}

void ShellScript::spend(std::size_t bytes) const {
  spent_ += bytes;
  if (spent_ > kMostInAll)
    fail_at({source_, std::min(line_, source_->lines.size() - 1), 0},
            fmt::format("variables become more than {} MiB of text", kMostInAll >> 20));
}

void ShellScript::end_word(MarkedText& word, Words& words) {
  if (!word.empty()) words.push_back(std::move(word));
  word.clear();
}

/// `NAME=(...)`, behind the opening parenthesis.
void ShellScript::read_array(const std::string& name, bool appends) {
  Words items;
  while (!at_end() && peek() != ')') {
    const char c = peek();
    if (c == '#') {
      read_comment();
    } else if (c == ' ' || c == '\t' || c == '\n') {
      advance();
    } else if (c == '\\' && peek(1) == '\n') {
      advance();
      advance();
    } else {
      read_word(items);
    }
  }
  if (!at_end()) advance();
  if (skips()) return;
  Variable& variable = variables_[name];
  if (!appends) variable.items.clear();
  variable.items.insert(variable.items.end(), items.begin(), items.end());
  std::size_t all = 0;
  for (const MarkedText& item : variable.items) all += item.size() + 1;
  check_size(all);
}

/// `NAME=VALUE` or `NAME+=VALUE`.
bool ShellScript::assigns(const MarkedText& word) {
  const std::string text = plain(word);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const bool appends = text[equals - 1] == '+';
  const std::string name = text.substr(0, equals - (appends ? 1 : 0));
  const bool named = !name.empty() && std::ranges::all_of(name, is_name) &&
                     std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  if (!named) return false;
  MarkedText value(word.begin() + static_cast<std::ptrdiff_t>(equals) + 1, word.end());
  Variable& variable = variables_[name];
  if (appends && !variable.items.empty()) {
    MarkedText& last = variable.items.back();
    last.insert(last.end(), value.begin(), value.end());
    check_size(last.size());
    return true;
  }
  if (!value.empty()) assigned_.emplace_back(name, value);
  variable.items = {std::move(value)};
  return true;
}

/// `separator` is what ends it: `&` and `|` are those of `&&` and `||` alone.
void ShellScript::end_command(Words& words, char separator) {
  if (words.empty()) return;
  const bool joined = separator == '&' || separator == '|';
  std::size_t first = 0;
  while (first < words.size()) {
    const std::string word = plain(words[first]);
    if (structure(words, first, joined)) {
      words.clear();
      return;
    }
    if (word == "else" && !frames_.empty()) branch(frames_.back(), Holds::yes);
    if (!is_before(word) && (skips() || !assigns(words[first]))) break;
    ++first;
  }
  const bool runs = !skips();
  chain(words, first, separator);
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  if (!words.empty() && runs) commands_.push_back(std::move(words));
  words.clear();
}

}  // namespace rehearse::inline foreign
