// Words of a script, with its variables, quotes and sums put in.
#include "foreign/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.hpp"

namespace rehearse::inline foreign {

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
    check_size(word.size());
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
    check_size(word.size());
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
    if (c == open && open != close && ++depth > kMostBrackets)
      fail_at(begin, fmt::format("brackets nested deeper than {} levels", kMostBrackets));
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
  spend(all.size());
  return all;
}

/// `$((...))`, behind its parentheses.
MarkedText ShellScript::sum_of(const MarkedChar& at) {
  const std::string text = behind('(', ')');
  if (peek() == ')') advance();
  return sum_of(text, "$((" + text + "))", at);
}

MarkedText ShellScript::sum_of(const std::string& text, const std::string& shown,
                               const MarkedChar& at) {
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
    check_size(with_values.size());
  }
  const auto sum = value_of_sum(with_values);
  return sum ? marked(std::to_string(*sum), at) : unknown(shown, at, false);
}

/// What a command prints: `expr 16 / $N` alone is known.
MarkedText ShellScript::printed(const std::string& command, const MarkedChar& at, bool quoted) {
  std::size_t first = command.find_first_not_of(' ');
  if (first == std::string::npos || command.compare(first, 5, "expr ") != 0)
    return unknown("$(" + command + ")", at, quoted);
  std::string sum = command.substr(first + 5);
  std::erase(sum, '\\');
  return sum_of(sum, "$(" + command + ")", at);
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
      spend(item.size());
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
    return put(printed(behind('`', '`'), at, quoted));
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
    return put(printed(behind('(', ')'), at, quoted));
  }
  std::string name;
  while (is_name(peek())) {
    name += peek();
    advance();
  }
  if (!name.empty()) return put(value_of(name, at, quoted));
  put(marked("$", at));
}

}  // namespace rehearse::inline foreign
