// torchtitan's registries of configurations: Python functions whose dataclass calls are read as
// text. Nothing is run, so what a function computes is not known.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.hpp"
#include "base/number.hpp"
#include "foreign/entry.hpp"
#include "foreign/marked_text.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr int kMostCalls = 64;

/// A value of Python: a scalar, a list, or a call with its arguments.
struct PythonValue {
  std::string text;  ///< of a scalar; a call's name; empty: it is not known
  bool is_call = false, is_list = false;
  std::vector<std::pair<std::string, PythonValue>> inner;  ///< arguments, or a list's items
  std::size_t at = 0;                                      ///< byte of the file

  PythonValue* argument(const std::string& name) {
    for (auto& [key, value] : inner)
      if (key == name) return &value;
    return nullptr;
  }
};

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  void at(std::size_t place) { at_ = place; }
  std::size_t place() const { return at_; }

  /// An expression; what is none of the above is passed over, up to its end.
  PythonValue expression(const std::map<std::string, PythonValue>& variables, int depth = 0) {
    skip();
    PythonValue made = depth > kMostCalls ? PythonValue{} : term(variables, depth);
    skip();
    if (ends()) return made;
    if ((peek() == '*' || peek() == '+') && decimal_number(made.text)) {
      const std::size_t begin = made.at;
      pass_to_end();
      std::string sum(text_.substr(begin, at_ - begin));
      std::erase_if(sum, [](char c) { return c == '_' || c == '\n'; });
      const auto value = value_of_sum(sum);
      made.text = value ? std::to_string(*value) : "";
      return made;
    }
    pass_to_end();
    made.text.clear();
    made.is_call = made.is_list = false;
    made.inner.clear();
    return made;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool ends() const {
    const char c = peek();
    return c == '\0' || c == ',' || c == ')' || c == ']' || c == '}' || c == '\n';
  }
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  /// Blanks and comments; within brackets also ends of lines.
  void skip() {
    while (at_ < text_.size()) {
      if (peek() == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (peek() == ' ' || peek() == '\t' || peek() == '\r' || (open_ > 0 && peek() == '\n'))
        ++at_;
      else
        return;
    }
  }

  void pass_string() {
    const char quote = peek();
    const bool is_long = text_.substr(at_, 3) == std::string(3, quote);
    const std::string end(is_long ? 3 : 1, quote);
    at_ += end.size();
    while (at_ < text_.size() && text_.substr(at_, end.size()) != end)
      at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + end.size(), text_.size());
  }

  /// The end of an expression: brackets within it are passed.
  void pass_to_end() {
    int inside = 0;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '"' || c == '\'') {
        pass_string();
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++inside;
      if (inside == 0 &&
          (c == ',' || c == ')' || c == ']' || c == '}' || (c == '\n' && open_ == 0)))
        return;
      if (c == ')' || c == ']' || c == '}') --inside;
      ++at_;
    }
  }

  PythonValue term(const std::map<std::string, PythonValue>& variables, int depth) {
    PythonValue made;
    made.at = at_;
    if (peek() == '"' || peek() == '\'') {
      const std::size_t begin = at_ + 1;
      pass_string();
      made.text = std::string(text_.substr(begin, at_ - begin - 1));
      return made;
    }
    if (peek() == '[' || peek() == '(') {
      made.is_list = true;
      arguments(made, peek() == '[' ? ']' : ')', variables, depth);
      return made;
    }
    const std::size_t begin = at_;
    while (is_name(peek()) || (peek() == '-' && at_ == begin)) ++at_;
    made.text = std::string(text_.substr(begin, at_ - begin));
    if (peek() == '(' && !made.text.empty()) {
      made.is_call = true;
      arguments(made, ')', variables, depth);
      return made;
    }
    const auto variable = variables.find(made.text);
    if (variable != variables.end()) return variable->second;
    if (made.text == "None") made.text = "null";
    return made;
  }

  void arguments(PythonValue& made, char close, const std::map<std::string, PythonValue>& variables,
                 int depth) {
    ++at_;
    ++open_;
    for (skip(); at_ < text_.size() && peek() != close; skip()) {
      const std::size_t before = at_;
      std::size_t end = at_;
      while (end < text_.size() && is_name(text_[end])) ++end;
      const std::string name(text_.substr(at_, end - at_));
      while (end < text_.size() && text_[end] == ' ') ++end;
      const bool named =
          !name.empty() && end + 1 < text_.size() && text_[end] == '=' && text_[end + 1] != '=';
      if (named) at_ = end + 1;
      made.inner.emplace_back(named ? name : "", expression(variables, depth + 1));
      skip();
      if (peek() == ',') ++at_;
      if (at_ == before) ++at_;
    }
    ++at_;
    --open_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int open_ = 0;
};

class Registry {
 public:
  Registry(const std::string& text, std::shared_ptr<const TextSource> source)
      : text_(text), source_(std::move(source)) {
    for (std::size_t at = text.find("def "); at != std::string::npos;
         at = text.find("def ", at + 4)) {
      if (at > 0 && text[at - 1] != '\n') continue;
      const std::size_t open = text.find('(', at);
      if (open == std::string::npos) break;
      const std::string name = text.substr(at + 4, open - at - 4);
      std::size_t end = at;
      do end = text.find('\n', end + 1);
      while (end != std::string::npos && end + 1 < text.size() &&
             (text[end + 1] == ' ' || text[end + 1] == '\n' || text[end + 1] == '#'));
      functions_.emplace_back(name, std::pair(open, std::min(end, text.size())));
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, range] : functions_)
      if (text_.substr(range.first, range.second - range.first).find(".Config") !=
          std::string::npos)
        names.push_back(name);
    return names;
  }

  /// What a function returns: a call with arguments, or one of another function that it changes.
  PythonValue value_of(const std::string& name, int depth = 0) {
    const auto found =
        std::ranges::find(functions_, name, [](const auto& one) { return one.first; });
    if (found == functions_.end() || depth > kMostCalls) return {};
    std::map<std::string, PythonValue> variables;
    const auto [begin, end] = found->second;
    std::size_t line = text_.find('\n', begin);
    while (line != std::string::npos && line < end) {
      const std::size_t at = line + 1;
      PythonReader reader(std::string_view(text_).substr(0, end));
      std::size_t next = text_.find('\n', at);
      // A statement of the function's own block has four blanks before it.
      const bool own = text_.compare(at, 4, "    ") == 0 && at + 4 < end && text_[at + 4] != ' ' &&
                       text_[at + 4] != '\n' && text_[at + 4] != '#';
      if (own) {
        if (text_.compare(at + 4, 7, "return ") == 0) {
          reader.at(at + 11);
          return resolved(reader.expression(variables), depth);
        }
        std::size_t word = at + 4;
        while (word < end && (std::isalnum(static_cast<unsigned char>(text_[word])) != 0 ||
                              text_[word] == '_' || text_[word] == '.'))
          ++word;
        if (text_.compare(word, 3, " = ") == 0) {
          reader.at(word + 3);
          PythonValue value = resolved(reader.expression(variables), depth);
          assign(text_.substr(at + 4, word - at - 4), std::move(value), variables);
          next = text_.find('\n', std::max(reader.place(), at));
        }
      }
      line = next;
    }
    return {};
  }

 private:
  /// A call of another function of the file is what that returns.
  PythonValue resolved(PythonValue value, int depth) {
    const bool other =
        value.is_call && value.inner.empty() &&
        std::ranges::any_of(functions_, [&](const auto& one) { return one.first == value.text; });
    return other ? value_of(value.text, depth + 1) : value;
  }

  static void assign(const std::string& path, PythonValue value,
                     std::map<std::string, PythonValue>& variables) {
    const std::size_t dot = path.find('.');
    PythonValue* at = &variables[path.substr(0, dot)];
    std::size_t from = dot == std::string::npos ? path.size() : dot + 1;
    while (from < path.size()) {
      const std::size_t end = std::min(path.find('.', from), path.size());
      const std::string part = path.substr(from, end - from);
      PythonValue* inner = at->argument(part);
      if (inner == nullptr) {
        at->is_call = true;
        inner = &at->inner.emplace_back(part, PythonValue{}).second;
      }
      at = inner;
      from = end + 1;
    }
    *at = std::move(value);
  }

  const std::string& text_;
  std::shared_ptr<const TextSource> source_;
  std::vector<std::pair<std::string, std::pair<std::size_t, std::size_t>>> functions_;
};

struct PythonEntries {
  std::shared_ptr<const TextSource> source;
  const std::string& text;
  std::vector<Entry> entries;

  TextPosition place(std::size_t byte) const {
    const auto line = static_cast<std::size_t>(
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n'));
    const std::size_t begin = byte == 0 ? 0 : text.rfind('\n', byte - 1) + 1;
    return {source, line, byte - std::min(begin, byte)};
  }

  void add(const std::string& key, const PythonValue& value) {
    if (entries.size() >= kMostEntries)
      fail_at(place(value.at), fmt::format("more than {} settings in one file", kMostEntries));
    if (!key.empty()) {
      std::string said = value.text;
      if (value.is_list) {
        said = "[";
        for (const auto& [name, item] : value.inner)
          said += (said.size() > 1 ? ", " : "") + item.text;
        said += "]";
      }
      // model_registry("8B") is "8B".
      if (value.is_call && !value.inner.empty() && value.inner.front().first.empty())
        said = value.inner.front().second.text;
      if (!said.empty())
        entries.push_back({key, value.is_list ? said : canonical(said), said, place(value.at), ""});
      else if (!value.is_call)
        entries.push_back({key, "null", "null", place(value.at), "the file computes it"});
    }
    if (value.is_call)
      for (const auto& [name, inner] : value.inner)
        if (!name.empty()) add(key.empty() ? name : key + "." + name, inner);
  }
};

}  // namespace

std::vector<Entry> python_entries(const std::string& text, const std::string& name,
                                  const std::string& function) {
  const auto source = make_text_source(text, name, std::filesystem::path(name).parent_path());
  Registry registry(text, source);
  const std::vector<std::string> names = registry.names();
  if (names.empty())
    fail_at({source, 0, 0}, "no function of this Python file returns a configuration",
            "give torchtitan's config_registry.py, or its saved configuration (JSON)");
  std::string chosen = function;
  if (chosen.empty() && names.size() == 1) chosen = names.front();
  if (std::ranges::find(names, chosen) == names.end())
    fail_at({source, 0, 0},
            chosen.empty() ? fmt::format("the file has {} configurations", names.size())
                           : fmt::format("no configuration {} stands there", chosen),
            fmt::format("add --config NAME, one of {}", fmt::join(names, ", ")));
  PythonEntries made{source, text, {}};
  made.add("", registry.value_of(chosen));
  return std::move(made.entries);
}

}  // namespace rehearse::inline foreign
