#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "config/document_node.hpp"

namespace rehearse::inline config {

namespace {

using Kind = DocumentNode::Kind;

constexpr std::size_t kShownAssignment = 60;

/// A step of an assignment's path: a key, or the index of a list.
struct Step {
  DocumentNode key;
  bool last;
};

std::string shortened(std::string_view assignment) {
  std::string shown(assignment.substr(0, kShownAssignment));
  if (shown.size() == assignment.size()) return shown;
  while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xc0) == 0x80)
    shown.pop_back();
  if (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0x80) != 0) shown.pop_back();
  return shown + "...";
}

std::vector<Step> split_path(const TextPosition& place, std::string_view path) {
  std::vector<Step> steps;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    DocumentNode key;
    key.kind = Kind::scalar;
    key.place = {place.source, place.line, place.byte + begin};
    key.text = path.substr(begin, end - begin);
    if (key.text.empty()) fail_at(key.place, "an empty key", "write it as --set cluster.nodes=8");
    steps.push_back({std::move(key), end == path.size()});
    begin = end + 1;
  }
  if (steps.size() > kMaxNesting) {
    fail_at(steps[kMaxNesting].key.place, fmt::format("nested deeper than {} levels", kMaxNesting));
  }
  return steps;
}

DocumentNode& list_item(DocumentNode& list, const Step& step) {
  const std::string& text = step.key.text;
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc() && end == text.data() + text.size() && index < list.items.size()) {
    return list.items[index];
  }
  const std::string remedy = list.items.empty()
                                 ? "replace the whole list: give the path without the index"
                                 : fmt::format("use an index from 0 to {}", list.items.size() - 1);
  fail_at(step.key.place, fmt::format("no item \"{}\" in a list of {}", text, list.items.size()),
          remedy);
}

DocumentNode& map_value(DocumentNode& map, const Step& step) {
  if (map.kind == Kind::null) {
    map.kind = Kind::map;
    map.place = step.key.place;
  }
  DocumentEntry* entry = map.find(step.key.text);
  if (entry == nullptr) {
    DocumentNode empty;
    empty.place = step.key.place;
    entry = &map.add(step.key, std::move(empty));
  } else if (step.last) {
    entry->key.place = step.key.place;
  }
  return entry->value;
}

DocumentNode& descend(DocumentNode& node, const Step& step) {
  if (node.kind == Kind::list) return list_item(node, step);
  if (node.kind == Kind::scalar) {
    fail_at(step.key.place,
            fmt::format("cannot set \"{}\" inside the single value \"{}\"", step.key.text,
                        shortened(node.text)),
            "set the value itself, or replace it by a map: {key: value}");
  }
  return map_value(node, step);
}

}  // namespace

void assign(DocumentNode& root, const std::string& assignment) {
  const auto source = make_text_source(assignment, "--set " + shortened(assignment), "");
  const std::string& first_line = source->lines[0];
  const std::size_t equals = first_line.find('=');
  if (equals == std::string::npos) {
    fail_at({source, 0, first_line.size()}, "expected a path, \"=\" and a value",
            "write it as --set cluster.nodes=8");
  }
  const std::string path = first_line.substr(0, equals);
  auto value = parse_tree(source, equals + 1);
  if (!value) {
    value.emplace();
    value->place = {source, 0, first_line.size()};
  }
  substitute(root, {source, 0, 0}, path, *value);
}

void substitute(DocumentNode& root, const TextPosition& place, const std::string& path,
                const DocumentNode& value) {
  DocumentNode* node = &root;
  for (const Step& step : split_path(place, path)) node = &descend(*node, step);
  *node = value;
}

}  // namespace rehearse::inline config
