#include "mutants.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "config/document_node.hpp"
#include "config/files_read.hpp"

namespace rehearse {
namespace {

using Node = DocumentNode;
using Kind = DocumentNode::Kind;

/// Flow style, on one line.
std::string written(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Kind::map:
      for (const DocumentEntry& entry : node.entries)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", written(entry.key),
                            written(entry.value));
      return "{" + text + "}";
    case Kind::list:
      for (const Node& item : node.items)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", written(item));
      return "[" + text + "]";
    case Kind::scalar: {
      const bool plain =
          !node.quoted && node.text.find_first_of(",[]{}:#&*!|>'\"%@`") == std::string::npos;
      return plain ? node.text : nlohmann::json(node.text).dump();
    }
    default:
      return "~";
  }
}

Node scalar(const std::string& text, bool quoted = false) {
  Node node;
  node.kind = Kind::scalar;
  node.text = text;
  node.quoted = quoted;
  return node;
}

Node list_of(std::vector<Node> items) {
  Node node;
  node.kind = Kind::list;
  node.items = std::move(items);
  return node;
}

Node map_of(const std::string& key, const std::string& value) {
  Node node;
  node.kind = Kind::map;
  node.add(scalar(key), scalar(value));
  return node;
}

std::string misspelt(const std::string& key) {
  std::string other = key;
  if (other.size() < 3) return other + "x";
  std::swap(other[other.size() - 2], other[other.size() - 1]);
  return other == key ? key.substr(0, key.size() - 1) : other;
}

/// Of its own kind: the ends of ranges, other units, other words.
std::vector<Node> other_values(const Node& node) {
  std::vector<Node> others;
  if (node.kind == Kind::scalar)
    for (const char* text :
         {"0",        "-1",   "1",          "2",    "3",     "1.5",     "1000000000",
          "1e30",     "true", "false",      "none", "auto",  "0s",      "1us",
          "1000000h", "1B",   "1000000GiB", "1bps", "1GBps", "nonsense"})
      if (node.text != text) others.push_back(scalar(text));
  if (node.kind == Kind::list && !node.items.empty()) {
    others = {node, node};
    others[0].items.pop_back();
    others[1].items.push_back(node.items.back());
  }
  return others;
}

std::vector<Node> other_kinds(const Node& node) {
  Node empty;
  empty.kind = Kind::map;
  std::vector<Node> others = {Node(),          list_of({}),      empty,
                              list_of({node}), map_of("a", "1"), scalar("", true)};
  if (node.kind != Kind::scalar) others.insert(others.end(), {scalar("5"), scalar("nonsense")});
  return others;
}

class Mutator {
 public:
  /// Counts all of them, or those with the text of one.
  explicit Mutator(const std::filesystem::path& file, std::optional<std::size_t> wanted = {})
      : file_(file),
        wanted_(wanted),
        root_(*parse_tree(
            make_text_source(read_input(file, kMaxTextBytes), file.string(), file.parent_path()))) {
    walk(root_, "");
  }
  std::vector<Mutant> take() { return std::move(mutants_); }
  std::string text() { return std::move(text_); }

 private:
  void keep(const std::string& path, const std::string& change) {
    const std::size_t number = count_++;
    if (!wanted_) mutants_.push_back({file_, path + ": " + change, number});
    if (wanted_ == number) text_ = written(root_) + "\n";
  }

  /// One value of another kind, and two of its own, in turn.
  void change(Node& node, const std::string& path) {
    const Node before = node;
    const std::size_t turn = turn_++;
    const auto take = [&](const std::vector<Node>& others, std::size_t which) {
      if (others.empty()) return;
      node = others[which % others.size()];
      keep(path, written(node));
    };
    take(other_kinds(before), turn);
    take(other_values(before), turn);
    take(other_values(before), turn + 7);
    node = before;
  }

  void walk(Node& node, const std::string& path) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string name = fmt::format("{}.{}", path, i);
      change(node.items[i], name);
      walk(node.items[i], name);
    }
    for (std::size_t i = 0; i < node.entries.size(); ++i) walk_entry(node, i, path);
  }

  void walk_entry(Node& node, std::size_t i, const std::string& path) {
    const std::string key = node.entries[i].key.text;
    const std::string name = path.empty() ? key : path + "." + key;
    const DocumentEntry entry = node.entries[i];
    node.entries.erase(node.entries.begin() + static_cast<std::ptrdiff_t>(i));
    keep(name, "deleted");
    node.entries.insert(node.entries.begin() + static_cast<std::ptrdiff_t>(i), entry);
    node.entries[i].key.text = misspelt(key);
    keep(name, "misspelt");
    node.entries[i].key.text = key;
    change(node.entries[i].value, name);
    walk(node.entries[i].value, name);
  }

  std::filesystem::path file_;
  std::optional<std::size_t> wanted_;
  Node root_;
  std::size_t turn_ = 0, count_ = 0;
  std::string text_;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants_of(const std::filesystem::path& file) { return Mutator(file).take(); }

std::string text_of(const Mutant& mutant) { return Mutator(mutant.file, mutant.number).text(); }

}  // namespace rehearse
