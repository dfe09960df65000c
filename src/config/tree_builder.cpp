#include "config/tree_builder.hpp"

#include <fmt/format.h>
#include <yaml-cpp/mark.h>

#include <algorithm>
#include <utility>

#include "base/printable.hpp"

namespace rehearse::inline config {

namespace {

using Kind = DocumentNode::Kind;

constexpr std::size_t kMaxNodes = 1'000'000;

bool spells_null(std::string_view text) {
  for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (!text.starts_with(word)) continue;
    return text.size() == word.size() ||
           std::string_view(" \t,]}#").find(text[word.size()]) != std::string_view::npos;
  }
  return false;
}

DocumentNode make(Kind kind, TextPosition place) {
  DocumentNode node;
  node.kind = kind;
  node.place = std::move(place);
  return node;
}

std::size_t nodes_in(const DocumentNode& node) {
  std::size_t all = 1;
  for (const DocumentNode& item : node.items) all += nodes_in(item);
  for (const DocumentEntry& entry : node.entries) all += 1 + nodes_in(entry.value);
  return all;
}

}  // namespace

TextPosition Marks::place(const YAML::Mark& mark) const {
  const auto line = static_cast<std::size_t>(
      std::clamp<long>(mark.line, 0, static_cast<long>(source->lines.size()) - 1));
  // Its columns count bytes.
  const auto column = static_cast<std::size_t>(std::max(mark.column, 0)) + (line == 0 ? skip : 0);
  const bool past_the_end = mark.line > static_cast<int>(line);
  const std::size_t length = source->lines[line].size();
  return {source, line, past_the_end ? length : std::min(column, length)};
}

std::string_view Marks::text_at(const TextPosition& place) const {
  return std::string_view(source->lines[place.line]).substr(place.byte);
}

void TreeBuilder::OnDocumentStart(const YAML::Mark& mark) {
  if (!root_) return;
  const TextPosition place = marks_.place(mark);
  if (marks_.text_at(place).starts_with("---")) {
    fail_at(place, "a second document", "write one document per file, without a second \"---\"");
  }
  fail_at(place, "the document has ended before this", "check the indentation and the brackets");
}

void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  TextPosition place = marks_.place(mark);
  reject_tag(place, "");
  // An empty value has no text of its own, and yaml-cpp reports it where the next token is.
  const bool empty = !spells_null(marks_.text_at(place));
  if (empty && !open_.empty())
    place = open_.back().key ? open_.back().key->place : open_.back().node.place;
  add(make(Kind::null, std::move(place)), anchor);
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  TextPosition place = marks_.place(mark);
  reject_tag(place, tag);
  // Escapes in quotes can write what the file itself may not hold.
  for (std::string_view rest = value; !rest.empty(); rest.remove_prefix(utf8_sequence(rest))) {
    if (utf8_sequence(rest) == 0 || is_unprintable(rest))
      fail_at(place, "a text with a control character in it");
  }
  DocumentNode node = make(Kind::scalar, std::move(place));
  node.text = value;
  node.quoted = tag == "!";
  add(std::move(node), anchor);
}

void TreeBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                                  YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
  open(Kind::list, mark, tag, anchor);
  open_.back().node.flow = style == YAML::EmitterStyle::Flow;
}

void TreeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value style) {
  open(Kind::map, mark, tag, anchor);
  open_.back().node.flow = style == YAML::EmitterStyle::Flow;
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const auto found = anchored_.find(anchor);
  if (strictness_ == Strictness::strict)
    fail_at(marks_.place(mark), "aliases (*name) are not supported", "write the value out");
  if (found == anchored_.end()) fail_at(marks_.place(mark), "an alias within its own anchor");
  count(nodes_in(found->second), marks_.place(mark));
  add(found->second, 0);
}

void TreeBuilder::OnAnchor(const YAML::Mark& mark, const std::string& name) {
  if (strictness_ == Strictness::foreign) return;
  fail_at(marks_.place(mark), fmt::format("anchors (&{}) are not supported", name),
          "write the value out");
}

void TreeBuilder::reject_tag(const TextPosition& place, const std::string& tag) const {
  const bool own_tag = !tag.empty() && tag != "?" && tag != "!";
  if (own_tag || marks_.text_at(place).starts_with('!')) {
    fail_at(place, "tags (!name) are not supported", "leave the tag out");
  }
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().node.kind == Kind::map && !open_.back().key;
}

void TreeBuilder::open(Kind kind, const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor) {
  TextPosition place = marks_.place(mark);
  reject_tag(place, tag);
  if (expects_key()) fail_as_key(place);
  if (open_.size() == kMaxNesting)
    fail_at(place, fmt::format("nested deeper than {} levels", kMaxNesting));
  open_.push_back({make(kind, std::move(place)), std::nullopt, anchor});
}

// yaml-cpp takes a bracket that is never closed for a key, too.
void TreeBuilder::fail_as_key(const TextPosition& place) const {
  const std::string_view text = marks_.text_at(place);
  const bool bracket = text.starts_with('[') || text.starts_with('{');
  fail_at(place, "a key must be a word, not a map or a list",
          bracket ? fmt::format("if it is not meant as a key: close the \"{}\"", text[0]) : "");
}

void TreeBuilder::close() {
  DocumentNode node = std::move(open_.back().node);
  const YAML::anchor_t anchor = open_.back().anchor;
  open_.pop_back();
  add(std::move(node), anchor);
}

void TreeBuilder::count(std::size_t nodes, const TextPosition& place) {
  node_count_ += nodes;
  if (node_count_ > kMaxNodes)
    fail_at(place, fmt::format("more than {} values in one file", kMaxNodes));
}

void TreeBuilder::add(DocumentNode node, YAML::anchor_t anchor) {
  count(1, node.place);
  if (anchor != 0) {
    count(nodes_in(node), node.place);
    anchored_.insert_or_assign(anchor, node);
  }
  if (open_.empty()) {
    root_ = std::move(node);
  } else if (open_.back().node.kind == Kind::list) {
    open_.back().node.items.push_back(std::move(node));
  } else if (!open_.back().key) {
    check_key(node);
    open_.back().key = std::move(node);
  } else {
    DocumentNode key = std::move(*open_.back().key);
    open_.back().key.reset();
    add_entry(std::move(key), std::move(node));
  }
}

void TreeBuilder::add_entry(DocumentNode key, DocumentNode value) {
  DocumentNode& map = open_.back().node;
  if (key.text == "<<" && !key.quoted) {
    if (value.kind == Kind::list)
      for (const DocumentNode& item : value.items) merge(item);
    else
      merge(value);
  } else if (DocumentEntry* before = map.find(key.text)) {
    *before = {std::move(key), std::move(value)};
  } else {
    map.add(std::move(key), std::move(value));
  }
}

/// A merge key's map: what the map says itself, before or behind it, counts.
void TreeBuilder::merge(const DocumentNode& value) {
  if (value.kind != Kind::map) fail_at(value.place, "a merge key (<<) takes maps");
  for (const DocumentEntry& entry : value.entries)
    if (open_.back().node.find(entry.key.text) == nullptr)
      open_.back().node.add(entry.key, entry.value);
}

void TreeBuilder::check_key(const DocumentNode& key) const {
  if (key.kind == Kind::null || key.text.empty()) fail_at(key.place, "an empty key");
  if (strictness_ == Strictness::strict && key.text == "<<" && !key.quoted) {
    fail_at(key.place, "merge keys (<<) are not supported", "write the keys out");
  }
  if (key.text.find_first_of("\n\t") != std::string::npos) {
    fail_at(key.place, "a key with a line end or a tab in it");
  }
  const DocumentEntry* first = open_.back().node.find(key.text);
  // PyYAML takes the last; DeepSpeed refuses it in its JSON (dict_raise_error_on_duplicate_keys).
  const bool is_json = marks_.text_at(open_.front().node.place).starts_with('{');
  if ((strictness_ == Strictness::strict || is_json) && first != nullptr) {
    fail_at(key.place, fmt::format("duplicate key \"{}\"; it stands on line {} already", key.text,
                                   first->key.place.line + 1));
  }
}

}  // namespace rehearse::inline config
