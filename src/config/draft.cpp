#include "config/draft.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/quoting.hpp"
#include "config/document.hpp"
#include "config/document_node.hpp"

namespace rehearse::inline config {

namespace {

constexpr std::size_t kWidth = 100;

/// Whether a text stands for itself without quotes.
bool is_plain_scalar(const std::string& text, bool in_braces) {
  const auto begins = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '+' || c == '(';
  };
  if (text.empty() || text.back() == ' ' || text.back() == ':') return false;
  const bool negative = text.size() > 1 && text[0] == '-' && begins(text[1]);
  if (!negative && !begins(text[0])) return false;
  const std::string_view special = in_braces ? ",{}[]\"'`|&!\n\t" : "\n\t";
  return text.find_first_of(special) == std::string::npos && text.find(": ") == std::string::npos &&
         text.find(" #") == std::string::npos;
}

}  // namespace

std::string yaml_scalar(const std::string& text, bool in_braces) {
  return is_plain_scalar(text, in_braces) ? text : yaml_quoted(text);
}

Draft::Draft(std::string text) : kind_(Kind::scalar), text_(yaml_scalar(text)) {}

Draft::Draft(double number) : Draft(fmt::format("{}", number)) {}

Draft Draft::map(std::initializer_list<std::pair<std::string, Draft>> entries) {
  Draft made;
  for (const auto& [key, value] : entries) made.entries_.emplace_back(key, value);
  return made;
}

Draft Draft::list(std::vector<Draft> items) {
  Draft made;
  made.kind_ = Kind::list;
  made.items_ = std::move(items);
  return made;
}

Draft Draft::null() {
  Draft made("");
  made.text_ = "null";
  return made;
}

Draft Draft::of(const Value& value) {
  if (value.is_map()) {
    Draft made;
    Map map = value.as_map();
    for (const std::string& key : map.keys()) made.entries_.emplace_back(key, of(map.require(key)));
    return made;
  }
  if (value.is_list()) {
    std::vector<Draft> items;
    for (const Value& item : value.as_list()) items.push_back(of(item));
    return list(std::move(items));
  }
  if (value.is_null()) return null();
  Draft made("");
  made.text_ =
      value.node_->quoted ? yaml_quoted(value.node_->text) : yaml_scalar(value.node_->text);
  return made;
}

Draft Draft::parsed(const std::string& yaml, const std::string& name) {
  return of(Document::parse(yaml, name)->root());
}

Draft& Draft::at(std::string_view path) {
  Draft* place = this;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    const std::string_view key = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (place->kind_ != Kind::map) *place = Draft();
    const auto found =
        std::ranges::find(place->entries_, key, &std::pair<std::string, Draft>::first);
    place = found != place->entries_.end() ? &found->second
                                           : &place->entries_.emplace_back(key, Draft()).second;
  }
  return *place;
}

Draft& Draft::set(std::string_view path, Draft value) {
  at(path) = std::move(value);
  return *this;
}

Draft& Draft::entry(std::string_view key, Draft value) {
  erase(key);
  entries_.emplace_back(key, std::move(value));
  return *this;
}

bool Draft::has(std::string_view key) const {
  return std::ranges::find(entries_, key, &std::pair<std::string, Draft>::first) != entries_.end();
}

void Draft::erase(std::string_view key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

std::string Draft::flow() const {
  if (kind_ == Kind::scalar) return text_;
  std::vector<std::string> parts;
  for (const Draft& item : items_) parts.push_back(item.flow());
  for (const auto& [key, value] : entries_)
    parts.push_back(fmt::format("{}: {}", yaml_scalar(key), value.flow()));
  return kind_ == Kind::list ? fmt::format("[{}]", fmt::join(parts, ", "))
                             : fmt::format("{{{}}}", fmt::join(parts, ", "));
}

bool Draft::has_maps() const {
  return std::ranges::any_of(items_, [](const Draft& item) { return !item.entries_.empty(); });
}

std::string Draft::block(int indent) const {
  std::string text;
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const Draft& item : items_) {
    std::string lines =
        item.entries_.empty() ? margin + "  " + item.flow() + "\n" : item.block(indent + 2);
    lines[static_cast<std::size_t>(indent)] = '-';
    text += lines;
  }
  for (const auto& [key, value] : entries_) {
    const std::string line = fmt::format("{}{}: {}", margin, yaml_scalar(key), value.flow());
    const bool is_block = value.entries_.size() > 0 || value.has_maps();
    if (line.size() <= kWidth || !is_block) {
      text += line + "\n";
      continue;
    }
    text += fmt::format("{}{}:\n{}", margin, yaml_scalar(key), value.block(indent + 2));
  }
  return text;
}

}  // namespace rehearse::inline config
