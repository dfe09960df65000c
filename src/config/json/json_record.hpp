#pragma once

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
#include "config/json/json_place.hpp"

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
OrderedJson or_null(const OrderedJson& schema);

/// Keys of an object and their schemas, and those that stand in every one.
struct JsonKeys {
  OrderedJson properties = OrderedJson::object(), required = OrderedJson::array();

  void add(const char* key, OrderedJson schema);
  /// Adds the keys of another object's schema.
  void include(const OrderedJson& object);
  OrderedJson schema() const;
};
/// The schema of a value of that type: "string".
OrderedJson typed_schema(const char* type);
/// The schemas of a list, of two values, and of an object of any keys.
OrderedJson list_schema(OrderedJson items);
OrderedJson pair_schema(OrderedJson items);
OrderedJson pair_schema(OrderedJson first, OrderedJson second);
OrderedJson map_schema(OrderedJson values);
/// The schema of what one of these holds of.
OrderedJson any_schema(std::vector<OrderedJson> schemas);
/// A document's own: JSON Schema's draft 2020-12, and what it is called.
OrderedJson titled_schema(const char* title, const OrderedJson& schema);
/// The schema of one text alone.
OrderedJson constant_schema(const char* text);
/// Sets a key of an object.
void put(OrderedJson& object, const char* key, OrderedJson value);

// --- entries of a list ---------------------------------------------------------------------------

/// A member under its key, in a form of its own or in its type's.
template <class Record, class Value, class Form>
struct JsonField {
  const char* key;
  Value Record::*member;

  void write(const Record& record, OrderedJson& json) const {
    put(json, key, Form::write(record.*member));
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
    if (is_there(record.*member)) put(json, key, to_json_value(record.*member));
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
  void describe(JsonKeys& keys) const { put(keys.properties, key, json_schema<Value>()); }
};
template <class Record, class Value>
constexpr auto field_if_any(const char* key, Value Record::*member) {
  return JsonFieldIfAny<Record, Value>{key, member};
}

/// A figure that follows from the others: written and not read. Its schema is its result's.
template <class Record, class Get>
struct JsonDerived {
  const char* key;
  Get get;

  void write(const Record& record, OrderedJson& json) const {
    put(json, key, to_json_value(get(record)));
  }
  void read(const JsonPlace&, Record&) const {}
  void describe(JsonKeys& keys) const {
    keys.add(key, json_schema<std::remove_cvref_t<std::invoke_result_t<Get, const Record&>>>());
  }
};
template <class Record, class Get>
constexpr auto derived(const char* key, Get get) {
  return JsonDerived<Record, Get>{key, get};
}

/// The same, whose key is left out where `get` has nothing.
template <class Record, class Get>
struct JsonDerivedIfAny {
  const char* key;
  Get get;

  void write(const Record& record, OrderedJson& json) const {
    if (const auto value = get(record)) put(json, key, to_json_value(*value));
  }
  void read(const JsonPlace&, Record&) const {}
  void describe(JsonKeys& keys) const {
    using Some = typename std::remove_cvref_t<std::invoke_result_t<Get, const Record&>>::value_type;
    put(keys.properties, key, json_schema<Some>());
  }
};
template <class Record, class Get>
constexpr auto derived_if_any(const char* key, Get get) {
  return JsonDerivedIfAny<Record, Get>{key, get};
}

/// JSON that something else makes, under a schema of its own.
template <class Record>
struct JsonMade {
  const char* key;
  OrderedJson (*get)(const Record& record);
  OrderedJson (*schema)();

  void write(const Record& record, OrderedJson& json) const { put(json, key, get(record)); }
  void read(const JsonPlace&, Record&) const {}
  void describe(JsonKeys& keys) const { keys.add(key, schema()); }
};
template <class Record>
constexpr auto made(const char* key, OrderedJson (*get)(const Record&), OrderedJson (*schema)()) {
  return JsonMade<Record>{key, get, schema};
}

/// The fields of a member that is a record, among the record's own.
template <class Record, class Value>
struct JsonIncluded {
  Value Record::*member;

  void write(const Record& record, OrderedJson& json) const {
    json.update(to_json_value(record.*member));
  }
  void describe(JsonKeys& keys) const { keys.include(json_schema<Value>()); }
};
template <class Record, class Value>
constexpr auto included(Value Record::*member) {
  return JsonIncluded<Record, Value>{member};
}

/// The same text in every document: ("schema", "rehearse.kernels/1").
template <class Record>
struct JsonConstant {
  const char* key;
  const char* text;

  void write(const Record&, OrderedJson& json) const { put(json, key, text); }
  void read(const JsonPlace&, Record&) const {}
  void describe(JsonKeys& keys) const { keys.add(key, constant_schema(text)); }
};
template <class Record>
constexpr auto constant(const char* key, const char* text) {
  return JsonConstant<Record>{key, text};
}

/// Entries of the same record in an object of their own.
template <class Record, class... Entries>
struct JsonGroup {
  const char* key;
  std::tuple<Entries...> entries;

  void write(const Record& record, OrderedJson& json) const {
    OrderedJson own = OrderedJson::object();
    std::apply([&](const auto&... one) { (one.write(record, own), ...); }, entries);
    put(json, key, std::move(own));
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

/// By the list of a record's fields.
template <class Record>
struct RecordForm {
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
template <JsonRecord Record>
struct JsonForm<Record> : RecordForm<Record> {};

/// The form of a record whose list one source alone includes (json_listed.hpp): a long list takes
/// seconds to compile wherever it is seen.
template <class Record>
struct ListedElsewhere {
  static OrderedJson write(const Record& record);
  static Record read(const JsonPlace& place);
  static OrderedJson schema();
};

}  // namespace rehearse::inline config

#include "config/json/json_forms.hpp"  // of the types that records are made of
