// Which way the conditions of a script go, where the file itself decides them.
#include "foreign/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline foreign {
namespace {

bool opens(const std::string& word) {
  return word == "if" || word == "for" || word == "while" || word == "until" || word == "case";
}
bool closes(const std::string& word) { return word == "fi" || word == "done" || word == "esac"; }

}  // namespace

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

}  // namespace rehearse::inline foreign
