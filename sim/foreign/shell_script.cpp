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
constexpr std::size_t kMostInAll = std::size_t{1} << 24;
/// Brackets within brackets, as YAML and JSON are bounded, too.
constexpr int kMostBrackets = 64;

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

/// What a command prints: `expr 16 / $N` alone is known.
MarkedText ShellScript::printed(const std::string& command, const MarkedChar& at, bool quoted) {
  std::size_t first = command.find_first_not_of(' ');
  if (first == std::string::npos || command.compare(first, 5, "expr ") != 0)
    return unknown("$(" + command + ")", at, quoted);
  std::string sum = command.substr(first + 5);
  std::erase(sum, '\\');
  return sum_of(sum, "$(" + command + ")", at);
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
  variable.items = {std::move(value)};
  return true;
}

/// The outermost condition that nobody can decide; 0: none is open.
std::uint32_t ShellScript::condition() const {
  for (const Frame& frame : frames_)
    if (frame.branch == Holds::unknown) return frame.line + 1;
  return chain_ == Holds::unknown ? chain_line_ + 1 : 0;
}

bool ShellScript::skips() const {
  return chain_ == Holds::no ||
         std::ranges::any_of(frames_, [](const Frame& one) { return one.branch == Holds::no; });
}

/// The next branch of an `if` whose test is this.
void ShellScript::branch(Frame& frame, Holds test) const {
  if (frame.taken)
    frame.branch = Holds::no;
  else if (test == Holds::yes && frame.open)
    frame.branch = Holds::unknown;
  else
    frame.branch = test;
  frame.taken = frame.taken || frame.branch == Holds::yes;
  frame.open = frame.open || frame.branch == Holds::unknown;
}

/// `[ A = B ]`, `[[ A == B ]]`, `[ -n A ]`, `[ A -gt B ]` of words that the file itself decides.
ShellScript::Holds ShellScript::holds(const Words& words, std::size_t first) const {
  std::vector<std::string> said;
  for (std::size_t i = first; i < words.size(); ++i) {
    for (const MarkedChar& one : words[i])
      if (one.unset || one.condition != 0) return Holds::unknown;
    said.push_back(plain(words[i]));
  }
  if (said.empty() || (said[0] != "[" && said[0] != "[[")) return Holds::unknown;
  if (said.back() != (said[0] == "[" ? "]" : "]]")) return Holds::unknown;
  std::vector<std::string> test(said.begin() + 1, said.end() - 1);
  const bool negated = !test.empty() && test[0] == "!";
  if (negated) test.erase(test.begin());
  const auto is = [&](bool what) { return what != negated ? Holds::yes : Holds::no; };
  // An empty word in quotes leaves none here.
  if (test.size() == 1 && (test[0] == "-z" || test[0] == "-n")) return is(test[0] == "-z");
  if (test.size() == 2 && (test[0] == "-z" || test[0] == "-n"))
    return is(test[1].empty() == (test[0] == "-z"));
  if (test.size() != 3) return Holds::unknown;
  const std::string& sign = test[1];
  if (sign == "=" || sign == "==") {
    if (test[2].find_first_of("*?") != std::string::npos) return Holds::unknown;
    return is(test[0] == test[2]);
  }
  if (sign == "!=") return is(test[0] != test[2]);
  const auto left = value_of_sum(test[0]), right = value_of_sum(test[2]);
  if (!left || !right) return Holds::unknown;
  if (sign == "-eq") return is(*left == *right);
  if (sign == "-ne") return is(*left != *right);
  if (sign == "-gt") return is(*left > *right);
  if (sign == "-ge") return is(*left >= *right);
  if (sign == "-lt") return is(*left < *right);
  if (sign == "-le") return is(*left <= *right);
  return Holds::unknown;
}

/// A word of `if`, `for` and the like; false where it is another. A loop's commands run as often
/// as nobody knows. A test that others are joined to decides nothing.
bool ShellScript::structure(const Words& words, std::size_t first, bool joined) {
  const std::string word = plain(words[first]);
  if (opens(word)) {
    if (frames_.size() >= std::size_t{kMostBrackets})
      fail_at({source_, words[first].front().line, words[first].front().byte},
              fmt::format("conditions nested deeper than {} levels", kMostBrackets));
    Frame frame{.line = words[first].front().line};
    if (word == "if" && !joined) branch(frame, holds(words, first + 1));
    frame.open = frame.open || joined;
    frames_.push_back(frame);
  } else if (closes(word)) {
    if (!frames_.empty()) frames_.pop_back();
  } else if (word == "elif" && !frames_.empty()) {
    branch(frames_.back(), joined ? Holds::unknown : holds(words, first + 1));
  } else {
    return false;
  }
  return true;
}

/// Whether the command behind `&&` or `||` runs. A program is taken to end well.
void ShellScript::chain(const Words& words, std::size_t first, char separator) {
  const Holds before = chain_;
  chain_ = Holds::yes;
  if (separator != '&' && separator != '|') return;
  const bool is_test = first < words.size() && plain(words[first]).starts_with('[');
  const Holds ended = before == Holds::unknown ? before
                      : is_test                ? holds(words, first)
                                               : Holds::yes;
  const bool wants = separator == '&';
  chain_ = ended == Holds::unknown          ? ended
           : (ended == Holds::yes) == wants ? Holds::yes
                                            : Holds::no;
  chain_line_ = static_cast<std::uint32_t>(line_);
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
