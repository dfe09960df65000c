#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "config/json/json_record.hpp"

/// Forms of numbers, texts, quantities, enumerations, lists, maps and pairs.
namespace rehearse::inline config {

template <>
struct JsonForm<bool> {
  static OrderedJson write(bool value);
  static bool read(const JsonPlace& place);
  static OrderedJson schema();
};

template <std::integral Whole>
struct JsonForm<Whole> {
  static OrderedJson write(Whole value) { return value; }
  static Whole read(const JsonPlace& place) { return place.whole<Whole>(); }
  static OrderedJson schema() {
    OrderedJson whole = typed_schema("integer");
    if (std::unsigned_integral<Whole>) put(whole, "minimum", 0);
    return whole;
  }
};

template <>
struct JsonForm<double> {
  static OrderedJson write(double value);
  static double read(const JsonPlace& place);
  static OrderedJson schema();
};

template <>
struct JsonForm<std::string> {
  static OrderedJson write(const std::string& value);
  static std::string read(const JsonPlace& place);
  static OrderedJson schema();
};

template <class Tag>
struct JsonForm<Quantity<Tag>> {
  static OrderedJson write(Quantity<Tag> value) { return value.value(); }
  static Quantity<Tag> read(const JsonPlace& place) { return Quantity<Tag>(place.number()); }
  static OrderedJson schema() { return typed_schema("number"); }
};

/// Whole numbers of bytes as integers; a fraction (a third of a tensor) stays one.
template <>
struct JsonForm<Bytes> {
  static OrderedJson write(Bytes size);
  static Bytes read(const JsonPlace& place);
  static OrderedJson schema();
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
    OrderedJson schema = OrderedJson::object();
    put(schema, "enum", std::move(names));
    return schema;
  }
};

/// A value that is JSON already, of any type.
template <>
struct JsonForm<OrderedJson> {
  static OrderedJson write(const OrderedJson& json) { return json; }
  static OrderedJson schema() { return true; }
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
  static OrderedJson schema() { return list_schema(json_schema<Value>()); }
};

template <class Value>
struct JsonForm<Ends<Value>> {
  static OrderedJson write(const Ends<Value>& ends) {
    return OrderedJson::array({to_json_value(ends.low), to_json_value(ends.high)});
  }
  static Ends<Value> read(const JsonPlace& place) { return place.ends(from_json_value<Value>); }
  static OrderedJson schema() { return pair_schema(json_schema<Value>()); }
};

/// An object of any keys, in their order: written and not read.
template <class Value>
struct JsonEntries {
  std::vector<std::pair<std::string, Value>> all{};
};
template <class Value>
struct JsonForm<JsonEntries<Value>> {
  static OrderedJson write(const JsonEntries<Value>& entries) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [key, value] : entries.all) put(json, key.c_str(), to_json_value(value));
    return json;
  }
  static OrderedJson schema() { return map_schema(json_schema<Value>()); }
};

/// A value of one of these types: written and not read.
template <class... Values>
struct JsonForm<std::variant<Values...>> {
  static OrderedJson write(const std::variant<Values...>& value) {
    return std::visit([](const auto& one) { return to_json_value(one); }, value);
  }
  static OrderedJson schema() { return any_schema({json_schema<Values>()...}); }
};

/// Written and not read.
template <class First, class Second>
struct JsonForm<std::pair<First, Second>> {
  static OrderedJson write(const std::pair<First, Second>& both) {
    return OrderedJson::array({to_json_value(both.first), to_json_value(both.second)});
  }
  static OrderedJson schema() { return pair_schema(json_schema<First>(), json_schema<Second>()); }
};

template <class Value>
struct JsonForm<std::map<std::string, Value>> {
  static OrderedJson write(const std::map<std::string, Value>& all) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [key, value] : all) put(json, key.c_str(), to_json_value(value));
    return json;
  }
  static std::map<std::string, Value> read(const JsonPlace& place) {
    std::map<std::string, Value> all;
    for (const auto& [key, value] : place.entries()) all[key] = from_json_value<Value>(value);
    return all;
  }
  static OrderedJson schema() { return map_schema(json_schema<Value>()); }
};

}  // namespace rehearse::inline config
