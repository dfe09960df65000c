#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "config/document.hpp"
#include "config/document_node.hpp"
#include "config/draft.hpp"
#include "config/key_log.hpp"
#include "config/key_places.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline config {

namespace {

KeyPlaces key_places = nullptr;

/// What the keys at the top of a file are, which say of what kind it is.
std::vector<std::string> top_keys(const DocumentNode& root) {
  std::vector<std::string> names;
  for (const DocumentEntry& entry : root.entries) names.push_back(entry.key.text);
  return names;
}

/// Whether files have the key at this very path, so that it is no other one misspelt.
bool belongs_at(const std::string& key, const std::string& path,
                const std::vector<std::string>& top) {
  if (key_places == nullptr) return false;
  const auto places = key_places(key, top);
  return std::ranges::find(places, path) != places.end();
}

/// `checkpoint_write` where files have `checkpoint: {write: ...}`; empty: nothing like it.
std::string nested_remedy(const std::string& key, const std::string& parent,
                          const std::vector<std::string>& top) {
  for (std::size_t at = key.find('_'); at != std::string::npos; at = key.find('_', at + 1)) {
    const std::string outer = key.substr(0, at), inner = key.substr(at + 1);
    if (belongs_at(inner, (parent.empty() ? outer : parent + "." + outer) + "." + inner, top))
      return fmt::format("write {}: {{{}: ...}}", outer, inner);
  }
  return "";
}

/// Keys in a sentence: those with commas of their own in quotes.
std::string listed(const std::vector<std::string>& keys) {
  std::vector<std::string> each;
  for (const std::string& key : keys) each.push_back(yaml_scalar(key, true));
  return fmt::format("{}", fmt::join(each, ", "));
}

}  // namespace

std::string Map::path_of(const std::string& key) const {
  return where_.path_.empty() ? key : where_.path_ + "." + key;
}

std::optional<Value> Map::optional(const std::string& key) {
  asked_.insert(key);
  mistaken_.erase(key);
  if (KeyLog* const log = KeyLog::current()) log->use(where_.document_->name(), path_of(key));
  const DocumentEntry* entry = where_.node_->find(key);
  if (entry == nullptr) return std::nullopt;
  return Value(where_.document_, &entry->value, path_of(key));
}

Value Map::require(const std::string& key) {
  if (auto value = optional(key)) return *value;
  const Value none(where_.document_, where_.document_->stand_in(*where_.node_), path_of(key));
  if (where_.is_stand_in()) return none;
  std::vector<std::string> unread;
  for (const std::string& name : keys()) {
    if (!asked_.contains(name) &&
        !belongs_at(name, path_of(name), top_keys(*where_.document_->root_)))
      unread.push_back(name);
  }
  const std::string near = nearest(key, unread);
  const std::string parts =
      near.empty() ? "" : nested_remedy(near, where_.path_, top_keys(*where_.document_->root_));
  const bool in_parts = parts.starts_with("write " + key + ":");
  where_.mistake(fmt::format("the key \"{}\" is missing", key),
                 near.empty() ? ""
                 : in_parts   ? parts
                              : fmt::format("is \"{}\" meant to be \"{}\"?", near, key));
  if (near.empty()) return none;
  if (in_parts) {
    asked_.insert(near);
    mistaken_.insert(near);
    return none;
  }
  const Value taken = *optional(near);
  mistaken_.insert(near);
  return taken;
}

bool Map::has(const std::string& key) const { return where_.node_->find(key) != nullptr; }

std::vector<std::string> Map::keys() const {
  std::vector<std::string> names;
  names.reserve(where_.node_->entries.size());
  for (const DocumentEntry& entry : where_.node_->entries) names.push_back(entry.key.text);
  return names;
}

Value Map::at_key(const std::string& key) const {
  const DocumentEntry* entry = where_.node_->find(key);
  if (entry == nullptr) return where_;
  return Value(where_.document_, &entry->key, path_of(key));
}

namespace {

/// What to do about a key that nobody knows: `steps:2` is a key of its own to YAML.
std::string unknown_key_remedy(const std::string& key, const std::vector<std::string>& known) {
  const std::size_t colon = key.find(':');
  if (colon != std::string::npos && std::ranges::find(known, key.substr(0, colon)) != known.end())
    return "put a space after the colon";
  const std::string near = nearest(key, known);
  return near.empty() ? "" : fmt::format("did you mean \"{}\"?", near);
}

/// More places than this are no help.
constexpr std::size_t kMostPlaces = 3;

/// Of a key that is known at `path`, but not beside what stands there: its place in one of those.
std::string place_below(const std::vector<std::string>& places, const std::string& path,
                        const std::vector<std::string>& beside) {
  const std::string parent = path.substr(0, path.rfind('.') + 1);
  const std::string key = path.substr(parent.size());
  for (const std::string& one : beside)
    if (std::ranges::find(places, parent + one + "." + key) != places.end())
      return fmt::format("beside {}, it belongs at {}{}.{}", one, parent, one, key);
  return "";
}

/// Where else the file could have it: at the places nearest to the top, or in a key that stands
/// `beside` it.
std::string other_place_remedy(const std::string& key, const std::string& path,
                               const std::vector<std::string>& top,
                               const std::vector<std::string>& beside) {
  if (key_places == nullptr) return "";
  auto places = key_places(key, top);
  if (std::ranges::find(places, path) != places.end()) return place_below(places, path, beside);
  if (places.empty()) return "";
  const auto depth = [](const std::string& place) { return std::ranges::count(place, '.'); };
  const auto least = depth(*std::ranges::min_element(places, {}, depth));
  std::erase_if(places, [&](const std::string& place) { return depth(place) > least; });
  if (places.size() > kMostPlaces) return "";
  if (least == 0) return fmt::format("\"{}\" stands at the top of the file", key);
  return fmt::format("it belongs at {}", fmt::join(places, " or "));
}

}  // namespace

void set_key_places(KeyPlaces source) { key_places = source; }

void Map::finish() const {
  const std::vector<std::string> top = top_keys(*where_.document_->root_);
  for (const DocumentEntry& entry : where_.node_->entries) {
    const std::string& key = entry.key.text;
    if (asked_.contains(key)) continue;
    std::vector<std::string> known;
    std::ranges::set_difference(asked_, mistaken_, std::back_inserter(known));
    std::string remedy = nested_remedy(key, where_.path_, top);
    if (remedy.empty()) remedy = unknown_key_remedy(key, known);
    if (remedy.empty()) remedy = other_place_remedy(key, path_of(key), top, keys());
    at_key(key).mistake(known.empty()
                            ? "unknown key; no keys are known here"
                            : fmt::format("unknown key; known keys here: {}", listed(known)),
                        remedy);
  }
}

void Map::take_default(const std::string& key, const std::string& value) const {
  std::string line = path_of(key) + " = " + value;
  const Document& document = *where_.document_;
  if (KeyLog* const log = KeyLog::current())
    log->use(document.name(), path_of(key)).defaults.insert(value);
  if (document.defaults_seen_.insert(line).second)
    document.defaults_taken_.push_back(std::move(line));
}

std::string Map::string_or(const std::string& key, const std::string& fallback) {
  if (const auto value = optional(key)) return value->as_string();
  take_default(key, fallback.empty() ? "\"\"" : fallback);
  return fallback;
}

bool Map::bool_or(const std::string& key, bool fallback) {
  if (const auto value = optional(key)) return value->as_bool();
  take_default(key, fallback ? "true" : "false");
  return fallback;
}

double Map::number_or(const std::string& key, double fallback) {
  if (const auto value = optional(key)) return value->as_number();
  take_default(key, fmt::format("{:.15g}", fallback));
  return fallback;
}

double Map::positive_number_or(const std::string& key, double fallback) {
  if (const auto value = optional(key)) return value->as_positive_number();
  take_default(key, fmt::format("{:.15g}", fallback));
  return fallback;
}

double Map::non_negative_number_or(const std::string& key, double fallback) {
  if (const auto value = optional(key)) return value->as_non_negative_number();
  take_default(key, fmt::format("{:.15g}", fallback));
  return fallback;
}

std::int64_t Map::integer_or(const std::string& key, std::int64_t fallback, std::int64_t low,
                             std::int64_t high) {
  if (const auto value = optional(key)) return value->as_integer(low, high);
  take_default(key, std::to_string(fallback));
  return fallback;
}

Seconds Map::seconds_or(const std::string& key, Seconds fallback) {
  if (const auto value = optional(key)) return value->as_seconds();
  take_default(key, format(fallback));
  return fallback;
}

Bytes Map::bytes_or(const std::string& key, Bytes fallback) {
  if (const auto value = optional(key)) return value->as_bytes();
  take_default(key, format(fallback));
  return fallback;
}

BytesPerSecond Map::bytes_per_second_or(const std::string& key, BytesPerSecond fallback) {
  if (const auto value = optional(key)) return value->as_bytes_per_second();
  take_default(key, format(fallback));
  return fallback;
}

std::string Map::choice_or(const std::string& key, const std::string& fallback,
                           const std::vector<std::string>& names) {
  if (const auto value = optional(key)) return value->as_choice(names);
  take_default(key, fallback);
  return fallback;
}

}  // namespace rehearse::inline config
