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

#include "config/json_text.hpp"
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

/// "a (b or c) or d" gives "a (b or c)" and "d"; "true or false" stays one.
std::vector<std::string> alternatives(std::string_view type) {
  std::vector<std::string> found(1);
  int depth = 0;
  for (std::size_t i = 0; i < type.size(); ++i) {
    if (depth == 0 && type.substr(i).starts_with(" or ") && found.back() != "true") {
      found.emplace_back();
      i += 3;
      continue;
    }
    depth += type[i] == '(' ? 1 : type[i] == ')' ? -1 : 0;
    found.back() += type[i];
  }
  return found;
}

/// "number (0 to 1)": what stands before the parentheses, and in them.
struct Words {
  std::string type, note;
};

Words words_of(const std::string& alternative) {
  const std::size_t open = alternative.find(" (");
  if (open == std::string::npos) return {alternative, ""};
  return {alternative.substr(0, open),
          alternative.substr(open + 2, alternative.size() - open - 3)};
}

/// A number with one of these units, as base/quantity.cpp reads it.
Json quantity(const std::string& units, bool bare_zero) {
  const std::string number = R"(^[+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *)";
  const Json text = {{"type", "string"}, {"pattern", number + "(" + units + ")$"}};
  if (!bare_zero) return text;
  return {{"anyOf", Json::array({text, Json{{"const", 0}}})}};
}

std::optional<Json> quantity_schema(const std::string& type) {
  const std::string size = "[kMGT]?B|[KMGT]iB";
  if (type == "time") return quantity("ns|us|ms|s|min|h|d", true);
  if (type == "size") return quantity(size, true);
  if (type == "data rate")
    return quantity("(" + size + ")(ps|/s)|[kMGT]?b(ps|it/s)", false);
  if (type == "arithmetic rate") return quantity("[kMGTPEZY]?FLOP(s|/s)", false);
  return std::nullopt;
}

/// `integer >= 1`, `number > 0`, `number` with a note such as "0 to 1".
std::optional<Json> number_schema(const Words& words) {
  const bool is_integer = words.type.starts_with("integer");
  if (!is_integer && !words.type.starts_with("number")) return std::nullopt;
  Json schema = {{"type", is_integer ? "integer" : "number"}};
  const auto bound = [&](std::string_view sign, const char* name) {
    const std::size_t at = words.type.find(sign);
    if (at != std::string::npos) schema[name] = std::stod(words.type.substr(at + sign.size()));
  };
  bound(" >= ", "minimum");
  bound(" > ", "exclusiveMinimum");
  const std::size_t to = words.note.find(" to ");
  if (to != std::string::npos) {
    schema["minimum"] = std::stod(words.note);
    schema["maximum"] = std::stod(words.note.substr(to + 4));
  }
  return schema;
}

/// A schema of text. YAML reads `8`, `2.3` and `true` as no text; our reader does.
Json any_text() { return {{"type", {"string", "number", "boolean"}}}; }

Json choice(const std::string& words) {
  Json names = Json::array();
  for (const auto part : std::views::split(words, std::string_view(" | "))) {
    const std::string name(part.begin(), part.end());
    if (name == "true" || name == "false")
      names.push_back(name == "true");
    else
      names.push_back(name);
  }
  return {{"enum", names}};
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
    std::vector<std::string> types;
    for (const Key* key : place.keys)
      for (std::string& type : alternatives(key->type))
        if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
    if (place.keys.empty()) types.emplace_back(place.item ? "list of map" : "map");
    Json schema = Json::object();
    if (!place.keys.empty()) {
      const Key& key = *place.keys.front();
      schema["description"] = key.meaning;
      if (key.fallback != "-" && key.fallback != "required")
        schema["description"] = fmt::format("{} Default: {}.", key.meaning, key.fallback);
    }
    Json any_of = Json::array();
    for (const std::string& type : types) any_of.push_back(of_type(type, place, for_all));
    if (any_of.size() == 1)
      schema.update(any_of.front());
    else
      schema["anyOf"] = any_of;
    return schema;
  }

  Json of_type(const std::string& type, const Place& place, const Place* for_all = nullptr) {
    const Words words = words_of(type);
    // "size (or `fits`)": a word beside the type; "text (auto)": one word alone.
    if (words.note.starts_with("or `")) {
      const std::string word = words.note.substr(4, words.note.size() - 5);
      return {{"anyOf", Json::array({of_type(words.type, place, for_all), {{"const", word}}})}};
    }
    if (words.note == "auto") return {{"const", "auto"}};
    if (type == "true or false") return {{"type", "boolean"}};
    if (words.type == "map") return object(place, for_all);
    if (words.type == "list") return {{"type", "array"}};
    if (words.type.starts_with("list of ")) return list(type.substr(8), place);
    if (words.type.starts_with("as ")) return like(words.type.substr(3), place);
    if (words.type == "text" || words.type.starts_with("a name")) return any_text();
    if (auto schema = quantity_schema(words.type)) return *schema;
    if (auto schema = number_schema(words)) return *schema;
    return choice(words.type);
  }

  Json list(const std::string& of, const Place& place) {
    const Place unknown;
    return {{"type", "array"}, {"items", of_type(of, place.item ? *place.item : unknown)}};
  }

  /// What is said of another place; the place itself says so where it is the model of others.
  Json like(const std::string& path, const Place& place) {
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

std::string schema_text(std::string_view kind) { return json_text(schema_of(kind), 1) + "\n"; }

}  // namespace rehearse::inline keys
