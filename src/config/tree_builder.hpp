#pragma once

#include <yaml-cpp/eventhandler.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/document_node.hpp"

namespace rehearse::inline config {

/// Turns yaml-cpp's marks into places in a source of which the first `skip` bytes were not parsed.
struct Marks {
  std::shared_ptr<const TextSource> source;
  std::size_t skip;

  /// A mark beyond the text stands at its end.
  TextPosition place(const YAML::Mark& mark) const;
  /// The rest of the line from a place on.
  std::string_view text_at(const TextPosition& place) const;
};

/// Builds the tree from yaml-cpp's events; InputError for what strict YAML leaves out. A foreign
/// file may have anchors, aliases, merge keys, and in YAML a key twice, of which the last counts.
class TreeBuilder : public YAML::EventHandler {
 public:
  enum class Strictness : std::uint8_t { strict, foreign };

  TreeBuilder(Marks marks, Strictness strictness)
      : marks_(std::move(marks)), strictness_(strictness) {}

  bool reads_anchors() const { return strictness_ == Strictness::foreign; }

  std::optional<DocumentNode> take_root() { return std::move(root_); }

  /// The innermost map or list that is still open, or null.
  const DocumentNode* innermost_open() const {
    return open_.empty() ? nullptr : &open_.back().node;
  }

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override;

 private:
  struct Open {
    DocumentNode node;
    std::optional<DocumentNode> key;  // of a map: read, its value is still to come
    YAML::anchor_t anchor = 0;
  };

  bool expects_key() const;
  void open(DocumentNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor);
  void close();
  void add(DocumentNode node, YAML::anchor_t anchor);
  void add_entry(DocumentNode key, DocumentNode value);
  void merge(const DocumentNode& value);
  void count(std::size_t nodes, const TextPosition& place);
  void reject_tag(const TextPosition& place, const std::string& tag) const;
  void check_key(const DocumentNode& key) const;
  [[noreturn]] void fail_as_key(const TextPosition& place) const;

  Marks marks_;
  Strictness strictness_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, DocumentNode> anchored_;
  std::optional<DocumentNode> root_;
  std::size_t node_count_ = 0;
};

}  // namespace rehearse::inline config
