#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ends.hpp"

namespace rehearse::inline config {

/// A text as JSON, keys in their order. InputError, `file:line: error: ...`, if it is none.
nlohmann::ordered_json parse_json(const std::string& text, const std::string& file);

/// A value of a JSON document, and the path to it. What is read and not there, or of another type,
/// is an InputError: `file: error: curve[3].samples: expected a number; got nothing`. The document
/// and the file's name must outlive it.
class JsonPlace {
 public:
  using Json = nlohmann::ordered_json;

  JsonPlace(const Json& document, const std::string& file) : value_(&document), file_(&file) {}

  /// The value of a key of an object; a key that is missing fails when its value is read.
  JsonPlace at(const std::string& key) const;
  /// The value of a key of an object; nothing where the key is missing.
  std::optional<JsonPlace> find(const std::string& key) const;
  /// The value that `read` makes; nothing for null.
  template <class Read>
  auto or_null(const Read& read) const -> std::optional<std::decay_t<decltype(read(*this))>> {
    if (value_ != nullptr && value_->is_null()) return std::nullopt;
    JsonPlace nullable = *this;
    nullable.nullable_ = true;
    return read(nullable);
  }

  double number() const;
  std::optional<double> number_or_null() const;
  /// No fraction, no exponent, and within the type's limits.
  template <std::integral Whole>
  Whole whole() const {
    using Limits = std::numeric_limits<Whole>;
    if (value_ != nullptr && value_->is_number_unsigned() &&
        std::in_range<Whole>(value_->get<std::uint64_t>()))
      return static_cast<Whole>(value_->get<std::uint64_t>());
    if (value_ != nullptr && value_->is_number_integer() && !value_->is_number_unsigned() &&
        std::in_range<Whole>(value_->get<std::int64_t>()))
      return static_cast<Whole>(value_->get<std::int64_t>());
    fail("a whole number from " + std::to_string(Limits::min()) + " to " +
         std::to_string(Limits::max()));
  }
  bool flag() const;
  std::string text() const;
  bool is_list() const { return value_ != nullptr && value_->is_array(); }
  std::vector<JsonPlace> list() const;
  template <class Read>
  auto list(const Read& read) const {
    std::vector<std::decay_t<decltype(read(*this))>> all;
    for (const JsonPlace& one : list()) all.push_back(read(one));
    return all;
  }
  /// The two ends of a list of two.
  template <class Read>
  auto ends(const Read& read) const {
    const std::vector<JsonPlace> both = list();
    if (both.size() != 2) fail("a list of two", "one of " + std::to_string(both.size()));
    return Ends<std::decay_t<decltype(read(*this))>>{read(both[0]), read(both[1])};
  }
  /// The entries of an object, in the document's order.
  std::vector<std::pair<std::string, JsonPlace>> entries() const;

  /// The value, among the first `count` of an enumeration, whose to_string() is this text.
  template <class Enum>
  Enum named(std::size_t count) const {
    return static_cast<Enum>(index_of(text(), names<Enum>(count)));
  }
  /// The same of a text that belongs to this place: its key.
  template <class Enum>
  Enum named(const std::string& name, std::size_t count) const {
    return static_cast<Enum>(index_of(name, names<Enum>(count)));
  }

  /// InputError: `expected` stands there, and something else was found, or `got`.
  [[noreturn]] void fail(const std::string& expected, const std::string& got = "") const;

 private:
  template <class Enum>
  static std::vector<std::string> names(std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(to_string(static_cast<Enum>(i)));
    return all;
  }
  std::size_t index_of(const std::string& name, const std::vector<std::string>& names) const;
  JsonPlace below(const Json* value, const std::string& step) const;

  const Json* value_;  ///< none: it is missing
  const std::string* file_;
  std::string path_{};
  bool nullable_ = false;  ///< for messages
};

}  // namespace rehearse::inline config
