#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse::inline config {

class Value;

/// YAML that the program writes: a value, a list, or a map whose keys stand in the order in which
/// they were first set. A document of what it prints has the same values in the same order.
///
///     Draft scenario;
///     scenario.set("model.use", "llama_3_8b").set("strategy.fsdp", Draft::map());
///     scenario.block();  // "model: {use: llama_3_8b}\nstrategy: {fsdp: {}}\n"
class Draft {
 public:
  Draft() = default;  ///< a map without keys
  /// A text as YAML reads it, in quotes where it would read something else: "4096" is a number,
  /// and "a: b" a text. Lines and tabs become spaces.
  Draft(std::string text);
  Draft(const char* text) : Draft(std::string(text)) {}
  Draft(bool truth) : Draft(truth ? "true" : "false") {}
  template <std::integral Whole>
  requires(!std::same_as<Whole, bool>) Draft(Whole number) : Draft(std::to_string(number)) {}
  /// The shortest decimal number that reads back as the same.
  Draft(double number);

  static Draft map() { return {}; }
  static Draft null();
  static Draft map(std::initializer_list<std::pair<std::string, Draft>> entries);
  static Draft list(std::vector<Draft> items);
  template <class Range>
  static Draft list_of(const Range& items) {
    std::vector<Draft> all;
    for (const auto& item : items) all.emplace_back(item);
    return list(std::move(all));
  }
  /// Copies a place of a document.
  static Draft of(const Value& value);
  /// Reads a text of flow YAML: "{fsdp: {}, tensor_parallel: 2}". InputError, in which `name`
  /// stands for its file, if it is none.
  static Draft parsed(const std::string& yaml, const std::string& name);

  /// Puts a value at a dotted path: maps on the way are made, and what was there is replaced.
  Draft& set(std::string_view path, Draft value);
  /// Puts a value at a key of this map, dots and all.
  Draft& entry(std::string_view key, Draft value);
  /// The value at a dotted path, which is made where it is missing.
  Draft& at(std::string_view path);
  bool has(std::string_view key) const;
  void erase(std::string_view key);

  bool is_map() const { return kind_ == Kind::map; }
  const std::vector<std::pair<std::string, Draft>>& entries() const { return entries_; }

  /// On one line: `{ddp: {bucket_cap_mb: 25}}`, `[1, 2]`, `fp32`.
  std::string flow() const;
  /// Lines of a document, each with its end: maps and lists that fit stand on one line of 100
  /// columns, other maps one key below the other, and other lists of maps likewise.
  std::string block(int indent = 0) const;

 private:
  enum class Kind { map, list, scalar };
  /// Whether an item of this list is a map with keys.
  bool has_maps() const;

  Kind kind_ = Kind::map;
  std::string text_;  ///< of a scalar, as it is printed
  std::vector<Draft> items_;
  std::vector<std::pair<std::string, Draft>> entries_;
};

/// A scalar of YAML as it is printed: in double quotes where it would else be something else, such
/// as a map, a comment or nothing. Outside of braces a text may have commas.
std::string yaml_scalar(const std::string& text, bool in_braces = true);

}  // namespace rehearse::inline config
