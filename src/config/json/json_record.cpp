#include "config/json/json_record.hpp"

#include <cmath>
#include <utility>

namespace rehearse::inline config {

OrderedJson or_null(const OrderedJson& schema) {
  return {{"anyOf", OrderedJson::array({schema, {{"type", "null"}}})}};
}

void JsonKeys::add(const char* key, OrderedJson schema) {
  put(properties, key, std::move(schema));
  required.push_back(key);
}

void JsonKeys::include(const OrderedJson& object) {
  properties.update(object["properties"]);
  for (const OrderedJson& key : object["required"]) required.push_back(key);
}

OrderedJson JsonKeys::schema() const {
  return {{"type", "object"},
          {"properties", properties},
          {"required", required},
          {"additionalProperties", false}};
}

OrderedJson typed_schema(const char* type) { return {{"type", type}}; }

void put(OrderedJson& object, const char* key, OrderedJson value) {
  object[key] = std::move(value);
}

OrderedJson JsonForm<bool>::write(bool value) { return value; }
bool JsonForm<bool>::read(const JsonPlace& place) { return place.flag(); }
OrderedJson JsonForm<bool>::schema() { return typed_schema("boolean"); }

OrderedJson JsonForm<double>::write(double value) { return value; }
double JsonForm<double>::read(const JsonPlace& place) { return place.number(); }
OrderedJson JsonForm<double>::schema() { return typed_schema("number"); }

OrderedJson JsonForm<std::string>::write(const std::string& value) { return value; }
std::string JsonForm<std::string>::read(const JsonPlace& place) { return place.text(); }
OrderedJson JsonForm<std::string>::schema() { return typed_schema("string"); }

OrderedJson JsonForm<Bytes>::write(Bytes size) {
  const double value = size.value();
  if (value == std::floor(value) && std::abs(value) < 0x1p53)
    return static_cast<std::int64_t>(value);
  return value;
}
Bytes JsonForm<Bytes>::read(const JsonPlace& place) { return Bytes(place.number()); }
OrderedJson JsonForm<Bytes>::schema() { return typed_schema("number"); }

OrderedJson list_schema(OrderedJson items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

OrderedJson titled_schema(const char* title, const OrderedJson& schema) {
  OrderedJson whole{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  whole.update(schema);
  return whole;
}

OrderedJson constant_schema(const char* text) { return {{"const", text}}; }

OrderedJson pair_schema(OrderedJson first, OrderedJson second) {
  OrderedJson schema = {{"type", "array"}};
  schema["prefixItems"] = OrderedJson::array({std::move(first), std::move(second)});
  schema["items"] = false;
  schema["minItems"] = 2;
  return schema;
}

OrderedJson pair_schema(OrderedJson items) {
  OrderedJson schema = list_schema(std::move(items));
  schema["minItems"] = 2;
  schema["maxItems"] = 2;
  return schema;
}

OrderedJson map_schema(OrderedJson values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

OrderedJson any_schema(std::vector<OrderedJson> schemas) {
  return {{"anyOf", OrderedJson(std::move(schemas))}};
}

}  // namespace rehearse::inline config
