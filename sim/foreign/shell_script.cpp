#include "foreign/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

/// Variables that name each other may grow without end.
constexpr std::size_t kMostText = std::size_t{1} << 18;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool opens(const std::string& word) {
  return word == "if" || word == "for" || word == "while" || word == "until" || word == "case";
}
bool closes(const std::string& word) { return word == "fi" || word == "done" || word == "esac"; }
/// Words before a command or an assignment that change nothing of it.
bool is_before(const std::string& word) {
  return word == "then" || word == "else" || word == "do" || word == "export" || word == "local" ||
         word == "declare" || word == "readonly" || word == "{" || word == "!";
}

}  // namespace

ShellScript::ShellScript(std::shared_ptr<const TextSource> source) : source_(std::move(source)) {
  Words words;
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      read_comment();
    } else if (c == '\n' || c == ';' || c == '|' || c == '&') {
      end_command(words);
      advance();
    } else if (c == ' ' || c == '\t' || c == '(' || c == ')') {
      advance();
    } else if (c == '\\' && peek(1) == '\n') {
      advance();
      advance();
    } else {
      read_word(words);
    }
  }
  end_command(words);
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
          .condition = conditions_.empty() ? 0 : conditions_.back() + 1};
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

void ShellScript::check_size(const MarkedText& text) const {
  if (text.size() > kMostText)
    fail_at({source_, std::min(line_, source_->lines.size() - 1), 0},
            fmt::format("variables of more than {} bytes", kMostText));
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
  Variable& variable = variables_[name];
  if (!appends) variable.items.clear();
  variable.items.insert(variable.items.end(), items.begin(), items.end());
  std::size_t all = 0;
  for (const MarkedText& item : variable.items) all += item.size() + 1;
  check_size(MarkedText(std::min(all, kMostText + 1)));
}

/// One word, or the several that an array or a variable without quotes becomes.
void ShellScript::read_word(Words& words) {
  MarkedText word;
  const std::size_t before = words.size();
  while (!at_end()) {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '|' || c == ')') break;
    if (c == '&' && !word.empty() && word.back().text != '>') break;
    if (c == '(') {
      const std::string name = plain(word);
      if (words.size() == before && (name.ends_with('='))) {
        advance();
        const bool appends = name.ends_with("+=");
        read_array(name.substr(0, name.size() - (appends ? 2 : 1)), appends);
        return;
      }
      break;
    }
    if (c == '\\') {
      advance();
      if (peek() == '\n') {
        advance();
        break;
      }
      word.push_back(here(peek(), true));
      advance();
    } else if (c == '\'' || c == '"') {
      read_quoted(word);
    } else if (c == '$' || c == '`') {
      read_expansion(word, false);
    } else {
      word.push_back(here(c, false));
      advance();
    }
    check_size(word);
  }
  const bool assignment = words.size() == before && plain(word).find('=') != std::string::npos &&
                          is_name(plain(word)[0]);
  if (assignment) {
    end_word(word, words);
    return;
  }
  for (MarkedText& part : split(word)) words.push_back(std::move(part));
}

void ShellScript::read_quoted(MarkedText& word) {
  const char quote = peek();
  const TextPosition begin{source_, line_, byte_};
  advance();
  while (!at_end() && peek() != quote) {
    const char c = peek();
    if (quote == '"' && c == '\\' && (peek(1) == '\n' || peek(1) == '"' || peek(1) == '\\')) {
      advance();
      if (peek() != '\n')
        word.push_back(here(peek(), true));
      else
        word.push_back(here(' ', true));
      advance();
    } else if (quote == '"' && (c == '$' || c == '`')) {
      read_expansion(word, true);
    } else {
      word.push_back(here(c, true));
      advance();
    }
    check_size(word);
  }
  if (at_end()) fail_at(begin, "a quote that nothing closes");
  advance();
}

/// The text from behind `open` to the `close` that belongs to it.
std::string ShellScript::behind(char open, char close) {
  const TextPosition begin{source_, line_, byte_};
  std::string text;
  for (int depth = 1; !at_end(); advance()) {
    const char c = peek();
    if (c == open && open != close) ++depth;
    if (c == close && --depth == 0) {
      advance();
      return text;
    }
    text += c;
  }
  fail_at(begin, fmt::format("a {} that nothing closes", open));
}

MarkedText ShellScript::unknown(const std::string& text, const MarkedChar& at, bool quoted) const {
  MarkedChar mark = at;
  mark.quoted = quoted;
  mark.unset = true;
  std::string one_word = text;
  std::ranges::replace(one_word, ' ', '_');
  return marked(one_word, mark);
}

MarkedText ShellScript::value_of(const std::string& name, const MarkedChar& at, bool quoted) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return unknown("$" + name, at, quoted);
  MarkedText all;
  for (const MarkedText& item : found->second.items) {
    if (!all.empty()) all.push_back({.text = ' ', .quoted = quoted});
    for (MarkedChar one : item) {
      one.quoted = one.quoted && found->second.items.size() > 1;
      if (quoted) one.quoted = true;
      if (one.condition == 0) one.condition = at.condition;
      all.push_back(one);
    }
  }
  return all;
}

/// `$((...))`, behind its parentheses.
MarkedText ShellScript::sum_of(const MarkedChar& at) {
  std::string text = behind('(', ')');
  if (peek() == ')') advance();
  std::string with_values;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '$' || c == '{' || c == '}') {
      ++i;
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      std::size_t end = i;
      while (end < text.size() && is_name(text[end])) ++end;
      with_values += "(" + plain(value_of(text.substr(i, end - i), at, false)) + ")";
      i = end;
    } else {
      with_values += c;
      ++i;
    }
    check_size(MarkedText(std::min(with_values.size(), kMostText + 1)));
  }
  const auto sum = value_of_sum(with_values);
  return sum ? marked(std::to_string(*sum), at) : unknown("$((" + text + "))", at, false);
}

/// `${...}`, behind its brace.
void ShellScript::read_braced(const MarkedChar& at, MarkedText& word, bool quoted) {
  const std::string text = behind('{', '}');
  std::size_t end = 0;
  while (end < text.size() && is_name(text[end])) ++end;
  const std::string name = text.substr(0, end);
  const std::string rest = text.substr(end);
  const auto put = [&](const MarkedText& value) {
    word.insert(word.end(), value.begin(), value.end());
  };
  if (rest == "[@]" || rest == "[*]") {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return put(unknown("$" + name, at, quoted));
    for (MarkedText item : found->second.items) {
      if (!word.empty()) word.push_back({.text = ' ', .quoted = false});
      // Without quotes around the array, a shell splits its items at spaces.
      for (MarkedChar& one : item) one.quoted = one.quoted && quoted;
      put(item);
    }
    return;
  }
  const bool fallback = rest.starts_with(":-") || rest.starts_with(":=") || rest.starts_with("-");
  if (rest.empty()) return put(value_of(name, at, quoted));
  if (fallback && !variables_.contains(name)) {
    std::string value = rest.substr(rest.starts_with("-") ? 1 : 2);
    if (value.starts_with('"') && value.ends_with('"') && value.size() > 1)
      value = value.substr(1, value.size() - 2);
    if (value.starts_with('$')) {
      std::string other = value.substr(1);
      std::erase_if(other, [](char c) { return !is_name(c); });
      return put(value_of(other, at, quoted));
    }
    return put(marked(value, at));
  }
  put(fallback ? value_of(name, at, quoted) : unknown("${" + text + "}", at, quoted));
}

void ShellScript::read_expansion(MarkedText& word, bool quoted) {
  const MarkedChar at = here('$', quoted);
  const auto put = [&](const MarkedText& value) {
    word.insert(word.end(), value.begin(), value.end());
  };
  if (peek() == '`') {
    advance();
    return put(unknown("`" + behind('`', '`') + "`", at, quoted));
  }
  advance();
  if (peek() == '{') {
    advance();
    return read_braced(at, word, quoted);
  }
  if (peek() == '(' && peek(1) == '(') {
    advance();
    advance();
    return put(sum_of(at));
  }
  if (peek() == '(') {
    advance();
    return put(unknown("$(" + behind('(', ')') + ")", at, quoted));
  }
  std::string name;
  while (is_name(peek())) {
    name += peek();
    advance();
  }
  if (!name.empty()) return put(value_of(name, at, quoted));
  put(marked("$", at));
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
    check_size(last);
    return true;
  }
  variable.items = {std::move(value)};
  return true;
}

void ShellScript::end_command(Words& words) {
  std::size_t first = 0;
  while (first < words.size()) {
    const std::string word = plain(words[first]);
    if (opens(word)) {
      conditions_.push_back(words[first].front().line);
      words.clear();
      return;
    }
    if (closes(word) && !conditions_.empty()) conditions_.pop_back();
    if (word == "elif" || closes(word)) {
      words.clear();
      return;
    }
    if (!is_before(word) && !assigns(words[first])) break;
    ++first;
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  if (!words.empty()) commands_.push_back(std::move(words));
  words.clear();
}

}  // namespace rehearse::inline foreign
