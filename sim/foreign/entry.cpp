#include "foreign/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/number.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kMostText = 10'000;
constexpr double kWhole = 9007199254740992.0;  // 2^53

bool is_list(const DocumentNode& node) { return node.kind == DocumentNode::Kind::list; }

/// A list of scalars, or of lists of them.
bool is_plain_list(const DocumentNode& node, bool may_nest = true) {
  return std::ranges::none_of(node.items, [&](const DocumentNode& item) {
    return item.kind == DocumentNode::Kind::map ||
           (is_list(item) && (!may_nest || !is_plain_list(item, false)));
  });
}

/// The name in `{_target_: torch.float32, _call_: false}`, as OmegaConf's dumps have a value that
/// is no scalar.
const DocumentNode* name_of_target(const DocumentNode& node) {
  const DocumentNode* name = nullptr;
  for (const DocumentEntry& entry : node.entries) {
    if (entry.key.text == "_target_")
      name = &entry.value;
    else if (entry.key.text != "_call_" || canonical(entry.value.text) != "false")
      return nullptr;
  }
  return node.entries.size() == 2 ? name : nullptr;
}

std::string text_of(const DocumentNode& node, bool as_written) {
  const std::string text = node.kind == DocumentNode::Kind::null ? "null" : node.text;
  return as_written ? text : canonical(text);
}

std::string list_of(const DocumentNode& list, bool as_written) {
  std::string text = "[";
  for (const DocumentNode& item : list.items)
    text += (text.size() > 1 ? ", " : "") +
            (is_list(item) ? list_of(item, as_written) : text_of(item, as_written));
  return text + "]";
}

void add(const DocumentNode& node, const std::string& key, std::vector<Entry>& to) {
  if (to.size() >= kMostEntries)
    fail_at(node.place, fmt::format("more than {} settings in one file", kMostEntries));
  if (node.kind == DocumentNode::Kind::map && !node.entries.empty()) {
    if (const DocumentNode* name = name_of_target(node)) return add(*name, key, to);
    for (const DocumentEntry& entry : node.entries)
      add(entry.value, key.empty() ? entry.key.text : key + "." + entry.key.text, to);
    return;
  }
  if (is_list(node) && !is_plain_list(node)) {
    for (const DocumentNode& item : node.items) add(item, key + "[]", to);
    return;
  }
  if (node.kind == DocumentNode::Kind::map) {
    to.push_back({key, "{}", "{}", node.place, ""});
  } else if (is_list(node)) {
    to.push_back({key, list_of(node, false), list_of(node, true), node.place, ""});
  } else {
    to.push_back({key, text_of(node, false), text_of(node, true), node.place, ""});
  }
}

/// OmegaConf's `${variables.max_seq_len}` is what the file says of that key.
void interpolate(std::vector<Entry>& entries) {
  constexpr int kMostPasses = 10;
  std::map<std::string, std::string> said;
  for (const Entry& entry : entries) {
    said[entry.key] = entry.said;
    // A file of MCLI has all of it below `parameters`.
    if (entry.key.starts_with("parameters.")) said.try_emplace(entry.key.substr(11), entry.said);
  }
  for (Entry& entry : entries)
    for (int pass = 0; pass < kMostPasses; ++pass) {
      const std::size_t begin = entry.said.find("${");
      const std::size_t end = entry.said.find('}', begin);
      if (begin == std::string::npos || end == std::string::npos) break;
      // Of `${NAME:VALUE}`, the environment's NAME is not known: VALUE is its default.
      const std::string name = entry.said.substr(begin + 2, end - begin - 2);
      const std::size_t colon = name.find(':');
      const auto found = said.find(name);
      if ((found == said.end() && colon == std::string::npos) || entry.said.size() > kMostText)
        break;
      entry.said.replace(begin, end - begin + 1,
                         found == said.end() ? name.substr(colon + 1) : found->second);
      entry.value = canonical(entry.said);
    }
}

}  // namespace

std::string canonical(std::string_view text) {
  static const std::array<std::pair<std::string_view, const char*>, 9> kWords = {
      {{"true", "true"},
       {"yes", "true"},
       {"on", "true"},
       {"false", "false"},
       {"no", "false"},
       {"off", "false"},
       {"null", "null"},
       {"none", "null"},
       {"~", "null"}}};
  if (text.empty()) return "null";
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [word, meant] : kWords)
    if (small == word) return meant;
  std::string digits(text);
  std::erase(digits, '_');  // Python's and TOML's
  const std::optional<double> number =
      std::isdigit(static_cast<unsigned char>(digits.front())) != 0 || digits.size() > 1
          ? decimal_number(digits)
          : std::nullopt;
  if (!number) return std::string(text);
  if (*number == std::floor(*number) && std::abs(*number) < kWhole)
    return fmt::format("{:d}", static_cast<std::int64_t>(*number));
  return fmt::format("{}", *number);
}

std::vector<Entry> entries_of(const DocumentNode& root) {
  std::vector<Entry> entries;
  add(root, "", entries);
  return entries;
}

std::vector<Entry> yaml_entries(const std::string& text, const std::string& name) {
  const auto source = make_text_source(text, name, std::filesystem::path(name).parent_path());
  // DeepSpeed refuses a JSON that says a thing twice (dict_raise_error_on_duplicate_keys).
  const auto tree = name.ends_with(".json") ? parse_tree(source) : parse_foreign_tree(source);
  if (!tree || tree->kind == DocumentNode::Kind::null)
    throw InputError(name + ": error: the file is empty");
  if (tree->kind != DocumentNode::Kind::map)
    fail_at(tree->place, "a configuration is a map of keys to values");
  std::vector<Entry> entries = entries_of(*tree);
  interpolate(entries);
  return entries;
}

}  // namespace rehearse::inline foreign
