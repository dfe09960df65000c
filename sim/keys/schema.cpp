#include "keys/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <set>
#include <stdexcept>

#include "config/json/json_text.hpp"
#include "keys/keys.hpp"
#include "view/json_view.hpp"

namespace rehearse::inline keys {
namespace {

using Json = nlohmann::ordered_json;

/// A key and what stands below it.
struct Place {
  std::vector<const Key*> keys;  ///< one line, or one for each section that says it
  std::vector<std::pair<std::string, std::unique_ptr<Place>>> below;
  std::unique_ptr<Place> any;   ///< below any other name: NAME, KEY
  std::unique_ptr<Place> item;  ///< each item of a list: []

  Place& child(const std::string& name) {
    for (auto& [known, place] : below)
      if (known == name) return *place;
    return *below.emplace_back(name, std::make_unique<Place>()).second;
  }
};

Place& made(std::unique_ptr<Place>& place) {
  if (!place) place = std::make_unique<Place>();
  return *place;
}

Place& step_down(Place& from, std::string name) {
  const bool is_list = name.ends_with("[]");
  if (is_list) name.resize(name.size() - 2);
  Place& named = name == "NAME" || name == "KEY" ? made(from.any) : from.child(name);
  return is_list ? made(named.item) : named;
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(path, '.'))
    if (!part.empty()) parts.emplace_back(part.begin(), part.end());
  return parts;
}

/// The keys of all files by their kind: "" is a scenario.
std::map<std::string, Place, std::less<>> places_by_kind() {
  std::map<std::string, Place, std::less<>> kinds;
  for (const KeySection& section : key_sections()) {
    const std::size_t slash = section.prefix.find('/');
    const bool has_kind = slash != std::string_view::npos;
    const std::string_view kind = has_kind ? section.prefix.substr(0, slash) : "";
    const std::string_view prefix = has_kind ? section.prefix.substr(slash + 1) : section.prefix;
    for (const Key& key : section.keys) {
      Place* place = &kinds[std::string(kind)];
      for (std::string& part : parts_of(fmt::format("{}{}", prefix, key.name)))
        place = &step_down(*place, std::move(part));
      place->keys.push_back(&key);
    }
  }
  return kinds;
}

// --- types

/// A number with one of these units, as base/quantity.cpp reads it.
Json quantity(const std::string& units, bool bare_zero) {
  const std::string number = R"(^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *)";
  const Json text = {{"type", "string"}, {"pattern", number + "(" + units + ")$"}};
  if (!bare_zero) return text;
  return {{"anyOf", Json::array({text, Json{{"const", 0}}})}};
}

Json number(const KeyType::One& one) {
  Json schema = {{"type", one.kind == KeyType::Kind::integer ? "integer" : "number"}};
  if (one.low) schema[one.above ? "exclusiveMinimum" : "minimum"] = *one.low;
  if (one.high) schema["maximum"] = *one.high;
  return schema;
}

/// A schema of text. YAML reads `8`, `2.3` and `true` as no text; our reader does.
Json any_text() { return {{"type", {"string", "number", "boolean"}}}; }

Json choice(const std::vector<std::string>& names) {
  Json all = Json::array();
  for (const std::string& name : names) {
    if (name == "true" || name == "false")
      all.push_back(name == "true");
    else
      all.push_back(name);
  }
  return {{"enum", all}};
}

// --- schemas

class SchemaWriter {
 public:
  explicit SchemaWriter(const std::map<std::string, Place, std::less<>>& kinds) : kinds_(kinds) {}

  Json file(std::string_view kind) {
    Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", fmt::format("Rehearse: {} file", kind)}};
    kind_ = kind == "scenario" || kind == "cluster" ? "" : kind;
    const Place& root = kinds_.at(kind_);
    schema.update(object(kind == "cluster" ? at("cluster") : root));
    // Definitions may need others, which join the queue while it is worked off.
    Json defined = Json::object();
    while (!wanted_.empty()) {
      const std::string path = *wanted_.begin();
      wanted_.erase(wanted_.begin());
      if (!defined.contains(path)) defined[path] = value(at(path));
      for (const auto& [known, unused] : defined.items()) wanted_.erase(known);
    }
    if (!defined.empty()) schema["$defs"] = defined;
    return schema;
  }

 private:
  /// A place by its path: "cluster.node" of a scenario, "study/vary" of another file.
  const Place& at(const std::string& path) const {
    const std::size_t slash = path.find('/');
    const bool has_kind = slash != std::string::npos;
    const Place* place = &kinds_.at(has_kind ? path.substr(0, slash) : "");
    for (const std::string& part : parts_of(has_kind ? path.substr(slash + 1) : path)) {
      const auto found = std::ranges::find(
          place->below, part, [](const auto& below) -> const std::string& { return below.first; });
      if (found == place->below.end()) throw std::out_of_range("no key " + path);
      place = found->second.get();
    }
    return *place;
  }

  /// `for_all`: keys that stand below any name, and so below this one, too.
  Json object(const Place& place, const Place* for_all = nullptr) {
    Json schema = {{"type", "object"}};
    if (place.below.empty() && !place.any && !for_all) return schema;  // another file's keys
    Json required = Json::array();
    if (for_all)
      for (const auto& [name, below] : for_all->below) schema["properties"][name] = value(*below);
    for (const auto& [name, below] : place.below) {
      schema["properties"][name] = value(*below, place.any.get());
      const auto is_required = [](const Key* key) { return key->fallback == "required"; };
      if (!below->keys.empty() && std::ranges::all_of(below->keys, is_required))
        required.push_back(name);
    }
    if (!required.empty()) schema["required"] = required;
    schema["additionalProperties"] = place.any ? value(*place.any) : Json(false);
    return schema;
  }

  Json value(const Place& place, const Place* for_all = nullptr) {
    KeyType types = place.item ? type::list_of(type::map()) : type::map();
    if (!place.keys.empty()) types = place.keys.front()->type;
    for (const Key* key : place.keys) types = types | key->type;
    Json schema = Json::object();
    if (!place.keys.empty()) {
      const Key& key = *place.keys.front();
      schema["description"] = key.meaning;
      if (key.fallback != "-" && key.fallback != "required")
        schema["description"] = fmt::format("{} Default: {}.", key.meaning, key.fallback);
    }
    Json any_of = Json::array();
    for (const KeyType::One& one : types.alternatives()) {
      Json schema_of_one = of_type(one, place, for_all);
      if (std::ranges::find(any_of, schema_of_one) == any_of.end())
        any_of.push_back(std::move(schema_of_one));
    }
    if (any_of.size() == 1)
      schema.update(any_of.front());
    else
      schema["anyOf"] = any_of;
    return schema;
  }

  Json of_type(const KeyType::One& one, const Place& place, const Place* for_all = nullptr) {
    using enum KeyType::Kind;
    constexpr auto kSize = "[kMGT]?B|[KMGT]iB";
    if (!one.beside.empty()) {
      KeyType::One quantity_alone = one;
      quantity_alone.beside.clear();
      return {{"anyOf", Json::array({of_type(quantity_alone, place, for_all),
                                     {{"const", one.beside}}})}};
    }
    switch (one.kind) {
      case text:
      case name: return any_text();
      case word: return {{"const", one.words}};
      case flag: return {{"type", "boolean"}};
      case integer:
      case KeyType::Kind::number: return keys::number(one);
      case time: return quantity("ns|us|ms|s|min|h|d", true);
      case size: return quantity(kSize, true);
      case data_rate:
        return quantity(fmt::format("({})(ps|/s)|[kMGT]?b(ps|it/s)", kSize), false);
      case arithmetic_rate: return quantity("[kMGTPEZY]?FLOP(s|/s)", false);
      case KeyType::Kind::choice: return keys::choice(one.names);
      case map: return object(place, for_all);
      case KeyType::Kind::list: return list_of(one, place);
      case KeyType::Kind::like: return as_key(one.words, place);
    }
    return any_text();
  }

  Json list_of(const KeyType::One& one, const Place& place) {
    if (one.items.empty()) return {{"type", "array"}};
    const Place unknown;
    Json any_of = Json::array();
    for (const KeyType::One& item : one.items.front().alternatives())
      any_of.push_back(of_type(item, place.item ? *place.item : unknown));
    return {{"type", "array"},
            {"items", any_of.size() == 1 ? any_of.front() : Json{{"anyOf", any_of}}}};
  }

  /// What is said of another place; the place itself says so where it is the model of others.
  Json as_key(const std::string& path, const Place& place) {
    if (&at(path) == &place) return object(place);
    wanted_.insert(path);
    std::string pointer = path;
    for (std::size_t at = 0; (at = pointer.find('/', at)) != std::string::npos; at += 2)
      pointer.replace(at, 1, "~1");
    return {{"$ref", "#/$defs/" + pointer}};
  }

  const std::map<std::string, Place, std::less<>>& kinds_;
  std::string kind_;
  std::set<std::string> wanted_;  ///< paths that others refer to and that are not defined yet
};

}  // namespace

const std::vector<std::string>& schema_kinds() {
  static const std::vector<std::string> kKinds = {
      "scenario",        "study",        "plan",  "cluster", "cases",
      "compute_profile", "comm_profile", "curve", "report"};
  return kKinds;
}

Json schema_of(std::string_view kind) {
  if (std::ranges::find(schema_kinds(), kind) == schema_kinds().end())
    throw std::out_of_range(fmt::format("no schema of {}", kind));
  if (kind == "report") return report_schema();
  const auto kinds = places_by_kind();
  return SchemaWriter(kinds).file(kind);
}

}  // namespace rehearse::inline keys
