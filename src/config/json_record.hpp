#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/ends.hpp"
#include "base/quantity.hpp"
#include "config/json_place.hpp"

namespace rehearse::inline config {

/// One list of a record's fields, from which its JSON is written and read. `json_fields()` of a
/// pointer to the record, found by its argument, returns a tuple of the entries below, in the order
/// of the keys:
///
///     constexpr auto json_fields(const Point*) {
///       return std::tuple(field("time_s", &Point::time), field("samples", &Point::samples));
///     }
///
/// to_json_value(point), from_json_value<Point>(place) and json_schema<Point>() follow from it.
template <class Record>
concept JsonRecord = requires(const Record* record) {
  json_fields(record);
};

/// How a value looks in JSON: `write(value)`, `read(place)` and `schema()`, a JSON Schema. Numbers,
/// flags, texts, quantities in their SI unit, ends, lists, optional values (null) and records have
/// one; so do enumerations that say by `json_count(const Enum*)` how many values they have.
template <class Value>
struct JsonForm;

using OrderedJson = nlohmann::ordered_json;

template <class Value>
OrderedJson to_json_value(const Value& value) {
  return JsonForm<Value>::write(value);
}
/// InputError where the place has something else.
template <class Value>
Value from_json_value(const JsonPlace& place) {
  return JsonForm<Value>::read(place);
}

template <class Value>
OrderedJson json_schema() {
  return JsonForm<Value>::schema();
}
inline OrderedJson or_null(const OrderedJson& schema) {
  return {{"anyOf", OrderedJson::array({schema, {{"type", "null"}}})}};
}

/// Keys of an object and their schemas, and those that stand in every one.
struct JsonKeys {
  OrderedJson properties = OrderedJson::object(), required = OrderedJson::array();

  void add(const char* key, OrderedJson schema) {
    properties[key] = std::move(schema);
    required.push_back(key);
  }
  OrderedJson schema() const {
    return {{"type", "object"},
            {"properties", properties},
            {"required", required},
            {"additionalProperties", false}};
  }
};

// --- entries of a list ---------------------------------------------------------------------------

/// A member under its key, in a form of its own or in its type's.
template <class Record, class Value, class Form>
struct JsonField {
  const char* key;
  Value Record::*member;

  void write(const Record& record, OrderedJson& json) const {
    json[key] = Form::write(record.*member);
  }
  void read(const JsonPlace& place, Record& record) const {
    record.*member = Form::read(place.at(key));
  }
  void describe(JsonKeys& keys) const { keys.add(key, Form::schema()); }
};
template <class Record, class Value>
constexpr auto field(const char* key, Value Record::*member) {
  return JsonField<Record, Value, JsonForm<Value>>{key, member};
}
template <class Form, class Record, class Value>
constexpr auto field_as(const char* key, Value Record::*member) {
  return JsonField<Record, Value, Form>{key, member};
}

/// A member whose key is left out where it has nothing: a list without entries, or no value.
template <class Record, class Value>
struct JsonFieldIfAny {
  const char* key;
  Value Record::*member;

  void write(const Record& record, OrderedJson& json) const {
    if (is_there(record.*member)) json[key] = to_json_value(record.*member);
  }
  template <class Some>
  static bool is_there(const std::optional<Some>& value) {
    return value.has_value();
  }
  template <class Some>
  static bool is_there(const std::vector<Some>& list) {
    return !list.empty();
  }
  void read(const JsonPlace& place, Record& record) const {
    if (const auto found = place.find(key)) record.*member = from_json_value<Value>(*found);
  }
  void describe(JsonKeys& keys) const { keys.properties[key] = json_schema<Value>(); }
};
template <class Record, class Value>
constexpr auto field_if_any(const char* key, Value Record::*member) {
  return JsonFieldIfAny<Record, Value>{key, member};
}

/// A figure that follows from the others: written and not read.
template <class Record, class Get>
struct JsonDerived {
  const char* key;
  Get get;

  void write(const Record& record, OrderedJson& json) const { json[key] = get(record); }
  void read(const JsonPlace&, Record&) const {}
  void describe(JsonKeys& keys) const { keys.add(key, true); }
};
template <class Record, class Get>
constexpr auto derived(const char* key, Get get) {
  return JsonDerived<Record, Get>{key, get};
}

/// Entries of the same record in an object of their own.
template <class Record, class... Entries>
struct JsonGroup {
  const char* key;
  std::tuple<Entries...> entries;

  void write(const Record& record, OrderedJson& json) const {
    OrderedJson& own = json[key] = OrderedJson::object();
    std::apply([&](const auto&... one) { (one.write(record, own), ...); }, entries);
  }
  void read(const JsonPlace& place, Record& record) const {
    std::apply([&](const auto&... one) { (one.read(place.at(key), record), ...); }, entries);
  }
  void describe(JsonKeys& keys) const {
    JsonKeys own;
    std::apply([&](const auto&... one) { (one.describe(own), ...); }, entries);
    keys.add(key, own.schema());
  }
};
template <class Record, class... Entries>
constexpr auto group(const char* key, Entries... entries) {
  return JsonGroup<Record, Entries...>{key, {entries...}};
}

// --- forms ---------------------------------------------------------------------------------------

template <JsonRecord Record>
struct JsonForm<Record> {
  static OrderedJson write(const Record& record) {
    OrderedJson json = OrderedJson::object();
    std::apply([&](const auto&... one) { (one.write(record, json), ...); },
               json_fields(static_cast<const Record*>(nullptr)));
    return json;
  }
  static Record read(const JsonPlace& place) {
    Record record;
    std::apply([&](const auto&... one) { (one.read(place, record), ...); },
               json_fields(static_cast<const Record*>(nullptr)));
    return record;
  }
  static OrderedJson schema() {
    JsonKeys keys;
    std::apply([&](const auto&... one) { (one.describe(keys), ...); },
               json_fields(static_cast<const Record*>(nullptr)));
    return keys.schema();
  }
};

template <>
struct JsonForm<bool> {
  static OrderedJson write(bool value) { return value; }
  static bool read(const JsonPlace& place) { return place.flag(); }
  static OrderedJson schema() { return {{"type", "boolean"}}; }
};

template <std::integral Whole>
struct JsonForm<Whole> {
  static OrderedJson write(Whole value) { return value; }
  static Whole read(const JsonPlace& place) { return place.whole<Whole>(); }
  static OrderedJson schema() {
    OrderedJson whole{{"type", "integer"}};
    if (std::unsigned_integral<Whole>) whole["minimum"] = 0;
    return whole;
  }
};

template <>
struct JsonForm<double> {
  static OrderedJson write(double value) { return value; }
  static double read(const JsonPlace& place) { return place.number(); }
  static OrderedJson schema() { return {{"type", "number"}}; }
};

template <>
struct JsonForm<std::string> {
  static OrderedJson write(const std::string& value) { return value; }
  static std::string read(const JsonPlace& place) { return place.text(); }
  static OrderedJson schema() { return {{"type", "string"}}; }
};

template <class Tag>
struct JsonForm<Quantity<Tag>> {
  static OrderedJson write(Quantity<Tag> value) { return value.value(); }
  static Quantity<Tag> read(const JsonPlace& place) { return Quantity<Tag>(place.number()); }
  static OrderedJson schema() { return {{"type", "number"}}; }
};

/// Whole numbers of bytes as integers; a fraction (a third of a tensor) stays one.
template <>
struct JsonForm<Bytes> {
  static OrderedJson write(Bytes size) {
    const double value = size.value();
    if (value == std::floor(value) && std::abs(value) < 0x1p53)
      return static_cast<std::int64_t>(value);
    return value;
  }
  static Bytes read(const JsonPlace& place) { return Bytes(place.number()); }
  static OrderedJson schema() { return {{"type", "number"}}; }
};

template <class Enum>
requires std::is_enum_v<Enum>
struct JsonForm<Enum> {
  static OrderedJson write(Enum value) { return to_string(value); }
  static Enum read(const JsonPlace& place) {
    return place.named<Enum>(json_count(static_cast<const Enum*>(nullptr)));
  }
  static OrderedJson schema() {
    OrderedJson names = OrderedJson::array();
    for (std::size_t i = 0; i < json_count(static_cast<const Enum*>(nullptr)); ++i)
      names.push_back(to_string(static_cast<Enum>(i)));
    return {{"enum", names}};
  }
};

template <class Value>
struct JsonForm<std::optional<Value>> {
  static OrderedJson write(const std::optional<Value>& value) {
    return value ? to_json_value(*value) : OrderedJson();
  }
  static std::optional<Value> read(const JsonPlace& place) {
    return place.or_null(from_json_value<Value>);
  }
  static OrderedJson schema() { return or_null(json_schema<Value>()); }
};

template <class Value>
struct JsonForm<std::vector<Value>> {
  static OrderedJson write(const std::vector<Value>& list) {
    OrderedJson json = OrderedJson::array();
    for (const Value& one : list) json.push_back(to_json_value(one));
    return json;
  }
  static std::vector<Value> read(const JsonPlace& place) {
    return place.list(from_json_value<Value>);
  }
  static OrderedJson schema() { return {{"type", "array"}, {"items", json_schema<Value>()}}; }
};

template <class Value>
struct JsonForm<Ends<Value>> {
  static OrderedJson write(const Ends<Value>& ends) {
    return OrderedJson::array({to_json_value(ends.low), to_json_value(ends.high)});
  }
  static Ends<Value> read(const JsonPlace& place) { return place.ends(from_json_value<Value>); }
  static OrderedJson schema() {
    return {{"type", "array"}, {"items", json_schema<Value>()}, {"minItems", 2}, {"maxItems", 2}};
  }
};

template <class Value>
struct JsonForm<std::map<std::string, Value>> {
  static OrderedJson write(const std::map<std::string, Value>& all) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [key, value] : all) json[key] = to_json_value(value);
    return json;
  }
  static std::map<std::string, Value> read(const JsonPlace& place) {
    std::map<std::string, Value> all;
    for (const auto& [key, value] : place.entries()) all[key] = from_json_value<Value>(value);
    return all;
  }
  static OrderedJson schema() {
    return {{"type", "object"}, {"additionalProperties", json_schema<Value>()}};
  }
};

}  // namespace rehearse::inline config
