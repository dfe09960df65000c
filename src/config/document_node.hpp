#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/text_source.hpp"

namespace rehearse::inline config {

struct DocumentEntry;

/// One node of a document's tree: what strict YAML leaves of YAML.
struct DocumentNode {
  /// A stand-in is of no document: it stands for what is missing, or is not what it should be.
  enum class Kind { null, scalar, list, map, stand_in };

  Kind kind = Kind::null;
  TextPosition place;
  std::string text;                    ///< of a scalar
  bool quoted = false;                 ///< a scalar in quotes, or a block of text: never a number
  bool flow = false;                   ///< a map or a list that is written as {...} or [...]
  std::vector<DocumentNode> items;     ///< of a list
  std::vector<DocumentEntry> entries;  ///< of a map, in the order of the file
  std::unordered_map<std::string, std::size_t> index;  ///< of a map: from key to entry

  /// The entry of `key`, or null.
  const DocumentEntry* find(const std::string& key) const;
  DocumentEntry* find(const std::string& key);
  /// Adds an entry whose key is not there yet.
  DocumentEntry& add(DocumentNode key, DocumentNode value);
};

struct DocumentEntry {
  DocumentNode key;
  DocumentNode value;
};

/// How many maps and lists may stand inside each other.
constexpr std::size_t kMaxNesting = 64;

/// The tree of a source, read from byte `skip` of its first line on; nothing if it has no content.
/// InputError if it is not strict YAML.
std::optional<DocumentNode> parse_tree(const std::shared_ptr<const TextSource>& source,
                                       std::size_t skip = 0);
/// The same of another program's YAML, which may have anchors, aliases and merge keys. Of a key
/// that stands twice the last counts, as of PyYAML's loader.
std::optional<DocumentNode> parse_foreign_tree(const std::shared_ptr<const TextSource>& source);

/// Applies one `path=value` assignment to a tree. InputError if it cannot be applied.
void assign(DocumentNode& root, const std::string& assignment);

/// Puts `value` at a dotted path, which is written at a place of some text. InputError if it cannot
/// be there.
void substitute(DocumentNode& root, const TextPosition& place, const std::string& path,
                const DocumentNode& value);

}  // namespace rehearse::inline config
