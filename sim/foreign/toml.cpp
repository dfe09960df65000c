// TOML, as torchtitan's configurations were until February 2026.
#include <fmt/format.h>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>

#include "foreign/entry.hpp"

namespace rehearse::inline foreign {
namespace {

using Source = std::shared_ptr<const TextSource>;

TextPosition place_of(const Source& source, const toml::source_region& region) {
  const std::size_t line = region.begin.line == 0 ? 0 : region.begin.line - 1;
  const std::size_t byte = region.begin.column == 0 ? 0 : region.begin.column - 1;
  const std::size_t last = source->lines.empty() ? 0 : source->lines.size() - 1;
  return {source, std::min(line, last), byte};
}

DocumentNode scalar(const toml::node& node, const Source& source) {
  DocumentNode made;
  made.kind = DocumentNode::Kind::scalar;
  made.place = place_of(source, node.source());
  if (const auto text = node.as_string()) {
    made.text = text->get();
    made.quoted = true;
  } else if (const auto flag = node.as_boolean()) {
    made.text = flag->get() ? "true" : "false";
  } else if (const auto whole = node.as_integer()) {
    made.text = fmt::format("{}", whole->get());
  } else if (const auto number = node.as_floating_point()) {
    made.text = fmt::format("{}", number->get());
  } else {
    fail_at(made.place, "no date and no time is known here", "leave it out");
  }
  return made;
}

DocumentNode tree_of(const toml::node& node, const Source& source);

/// Keys in the order of the file: toml++ sorts them by name.
DocumentNode map_of(const toml::table& table, const Source& source) {
  DocumentNode map;
  map.kind = DocumentNode::Kind::map;
  map.place = place_of(source, table.source());
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (const auto& [key, value] : table) entries.emplace_back(&key, &value);
  const auto begin = [](const auto& entry) {
    const toml::source_position& at = entry.first->source().begin;
    return std::pair(at.line, at.column);
  };
  std::ranges::stable_sort(entries, {}, begin);
  for (const auto& [key, value] : entries) {
    DocumentNode name;
    name.kind = DocumentNode::Kind::scalar;
    name.text = std::string(key->str());
    name.place = place_of(source, key->source());
    map.add(std::move(name), tree_of(*value, source));
  }
  return map;
}

DocumentNode tree_of(const toml::node& node, const Source& source) {
  if (const auto table = node.as_table()) return map_of(*table, source);
  const auto array = node.as_array();
  if (array == nullptr) return scalar(node, source);
  DocumentNode list;
  list.kind = DocumentNode::Kind::list;
  list.place = place_of(source, node.source());
  for (const toml::node& item : *array) list.items.push_back(tree_of(item, source));
  return list;
}

/// toml++ recurses over the parts of a dotted key, and bounds nested values alone.
void check_dots(const std::string& text, const Source& source) {
  constexpr int kMostDots = 64;
  std::size_t line = 0, begin = 0;
  int dots = 0;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      begin = at + 1;
    }
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++at;
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '#') dots = 0;
    if (c == '#') at = std::min(text.find('\n', at), text.size()) - 1;
    if (c == '.' && ++dots > kMostDots)
      fail_at({source, line, at - begin}, fmt::format("a key of more than {} parts", kMostDots));
  }
}

}  // namespace

std::vector<Entry> toml_entries(const std::string& text, const std::string& name) {
  const Source source = make_text_source(text, name, std::filesystem::path(name).parent_path());
  check_dots(text, source);
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed)
    fail_at(place_of(source, parsed.error().source()),
            "this is no TOML: " + std::string(parsed.error().description()));
  return entries_of(map_of(parsed.table(), source));
}

}  // namespace rehearse::inline foreign
