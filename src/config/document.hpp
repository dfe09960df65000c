#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline config {

/// One file of strict YAML, kept with its text so that every error can show its line.
///
/// Stricter than YAML: duplicate keys, anchors, aliases, tags, several documents, numbers that
/// would be read as octal, NaN and infinities are errors. This is the only code that knows
/// yaml-cpp.
class Document;
class Draft;
struct DocumentNode;

class Map;

/// One place in a document: its node, where it stands, and its path from the root (`strategy.ddp`).
/// Every `as_...` throws InputError with file:line:column, the line, a caret and what was expected;
/// where mistakes are noted (Mistakes) it notes that and returns some value of its kind.
class Value {
 public:
  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  bool is_null() const;  ///< empty, or `~`, or `null`

  Map as_map() const;
  std::vector<Value> as_list() const;
  std::string as_string() const;
  bool as_bool() const;  ///< true or false, nothing else
  double as_number() const;
  double as_positive_number() const;
  double as_non_negative_number() const;
  /// A whole number in [low, high].
  std::int64_t as_integer(std::int64_t low, std::int64_t high) const;
  Seconds as_seconds() const;                  ///< >= 0
  Bytes as_bytes() const;                      ///< >= 0
  BytesPerSecond as_bytes_per_second() const;  ///< > 0
  FlopsPerSecond as_flops_per_second() const;  ///< > 0
  /// One of `names`; a misspelt one gets the nearest as a suggestion.
  std::string as_choice(const std::vector<std::string>& names) const;

  /// Throws InputError at this place: `file:line:column: error: path: message`, the source line, a
  /// caret, and `remedy` as a last line when it is not empty.
  [[noreturn]] void fail(const std::string& message, const std::string& remedy = "") const;

  /// The same, for those who can go on: where mistakes are noted it is noted, and this returns.
  void mistake(const std::string& message, const std::string& remedy = "") const;
  /// An empty map in its place, to go on with after a mistake.
  Map stand_in() const;

  /// `strategy.ddp.bucket_cap_mb`; empty for the root.
  const std::string& path() const { return path_; }
  /// The scalar's own text, as written (for messages); "a map" or "a list" otherwise.
  std::string shown() const;
  /// The folder of the file that this value stands in: what relative file names start from. Empty
  /// (the current folder) for a value that was given on the command line.
  std::filesystem::path folder() const;
  /// The name of the file, as given by the user.
  const std::string& file() const;
  int line() const;

 private:
  friend class Document;
  friend class Draft;
  friend class Map;
  bool is_stand_in() const;
  Value(std::shared_ptr<const Document> document, const DocumentNode* node, std::string path)
      : document_(std::move(document)), node_(node), path_(std::move(path)) {}

  std::shared_ptr<const Document> document_;
  const DocumentNode* node_;
  std::string path_;
};

/// A map whose every key must be asked for: `finish()` rejects what was never read.
class Map {
 public:
  /// The value of `key`; InputError at the map if it is missing. Where mistakes are noted: a
  /// stand-in, or what stands at the misspelt key.
  Value require(const std::string& key);
  /// The value of `key`, or nothing if it is missing.
  std::optional<Value> optional(const std::string& key);
  bool has(const std::string& key) const;
  /// Keys in the order of the file.
  std::vector<std::string> keys() const;
  /// Where the map itself stands.
  const Value& where() const { return where_; }
  /// Where key `key` itself (not its value) stands: for errors about the key. The map itself if it
  /// is missing.
  Value at_key(const std::string& key) const;
  /// InputError for the first key that nobody asked for, with the nearest known key as a
  /// suggestion; where mistakes are noted, for each of them.
  void finish() const;

  // The common readers: the default where the key is missing.
  std::string string_or(const std::string& key, const std::string& fallback);
  bool bool_or(const std::string& key, bool fallback);
  double number_or(const std::string& key, double fallback);
  double positive_number_or(const std::string& key, double fallback);
  double non_negative_number_or(const std::string& key, double fallback);
  std::int64_t integer_or(const std::string& key, std::int64_t fallback, std::int64_t low,
                          std::int64_t high);
  Seconds seconds_or(const std::string& key, Seconds fallback);
  Bytes bytes_or(const std::string& key, Bytes fallback);
  BytesPerSecond bytes_per_second_or(const std::string& key, BytesPerSecond fallback);
  std::string choice_or(const std::string& key, const std::string& fallback,
                        const std::vector<std::string>& names);

 private:
  friend class Value;
  explicit Map(Value where) : where_(std::move(where)) {}
  std::string path_of(const std::string& key) const;
  void take_default(const std::string& key, const std::string& value) const;

  Value where_;
  std::set<std::string> asked_;
  std::set<std::string> mistaken_;  ///< the file's own, read in the place of what is missing
};

/// A value for a place in another document.
struct Substitution {
  Value path;  ///< a text, `cluster.nodes`
  Value value;
};

class Document : public std::enable_shared_from_this<Document> {
 public:
  /// Reads a file. MissingError if it cannot be read; InputError if it is empty, binary (NUL bytes
  /// or invalid UTF-8), larger than 16 MiB, or not strict YAML.
  static std::shared_ptr<const Document> load(const std::filesystem::path& file);
  /// The same for a file of another program that is YAML, too: JSON.
  static std::shared_ptr<const Document> load_foreign(const std::filesystem::path& file);
  /// The same for a text; `name` stands for the file in messages.
  static std::shared_ptr<const Document> parse(const std::string& text, const std::string& name);
  /// A map of a file as a document of its own, such as a scenario inside a plan: what is wrong in
  /// it is shown where it stands in that file.
  static std::shared_ptr<const Document> of(const Map& map);
  /// A copy in which `path=value` assignments (as of `--set cluster.nodes=8`) replace or add
  /// values; the text after `=` is YAML. A step of the path may be a list index. Errors in a value
  /// point into the assignment. InputError if a step runs through a scalar.
  std::shared_ptr<const Document> with_overrides(const std::vector<std::string>& assignments) const;

  /// A copy in which values of other documents stand at dotted paths, in order. Errors in a value,
  /// or about a key that only the path names, point into the document that they come from.
  /// InputError if a step runs through a scalar.
  std::shared_ptr<const Document> with_values(const std::vector<Substitution>& substitutions) const;

  Value root() const;
  const std::string& name() const { return name_; }
  /// Every `..._or` reader of a Map that fell back leaves "path = value" here, in the order of
  /// reading: the defaults that a report states.
  const std::vector<std::string>& defaults_taken() const { return defaults_taken_; }

  ~Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

 private:
  friend class Value;
  friend class Map;
  Document();
  const DocumentNode* stand_in(const DocumentNode& at) const;

  std::string name_;
  std::unique_ptr<DocumentNode> root_;
  mutable std::vector<std::string> defaults_taken_;
  mutable std::set<std::string> defaults_seen_;
  mutable std::vector<std::unique_ptr<DocumentNode>> stand_ins_;
};

/// The candidate that is probably meant by `word`: what others call by that word ("price",
/// "bfloat16"), else the nearest by edit distance (Damerau-Levenshtein), when it is near enough to
/// be a misspelling (a distance of at most a third of its length, at least 1, or 2 for 4 letters
/// and more) or a part of a longer name ("p4d" of "aws_p4d"), whatever the case of letters; else
/// one whose parts a device's longer name has ("NVIDIA A100-SXM4-80GB"); else empty.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace rehearse::inline config
