#include "model/hugging_face/hugging_face_config.hpp"

#include <fmt/format.h>

#include <ranges>

namespace rehearse::inline model {
namespace {

constexpr std::int64_t kMost = 100'000'000;

/// null, false, zero, or nothing in it.
bool is_off(const Value& value) {
  if (value.is_null()) return true;
  if (value.is_list()) return value.as_list().empty();
  if (value.is_map()) return value.as_map().keys().empty();
  const std::string text = value.shown();
  const bool zero = !text.empty() && text.find_first_not_of("0.-") == std::string::npos &&
                    text.find('0') != std::string::npos;
  return text.empty() || text == "false" || zero;
}

/// A word, not a number, a flag or a collection.
bool is_text(const Value& value) {
  if (!value.is_scalar()) return false;
  const std::string text = value.shown();
  const bool number =
      !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return !number && text != "true";
}

}  // namespace

std::int64_t HuggingFaceConfig::count_of(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const std::optional<Value> value = field(name)) return value->as_integer(1, kMost);
  }
  return map_.require(own_name(names.front())).as_integer(1, kMost);
}

std::int64_t HuggingFaceConfig::count_or(const std::string& name, std::int64_t fallback,
                                         std::int64_t low) {
  const std::optional<Value> value = field(name);
  return value ? value->as_integer(low, kMost) : fallback;
}

bool HuggingFaceConfig::flag_or(const std::string& name, bool fallback) {
  const std::optional<Value> value = field(name);
  return value ? value->as_bool() : fallback;
}

double HuggingFaceConfig::number_or(const std::string& name, double fallback) {
  const std::optional<Value> value = field(name);
  return value ? value->as_non_negative_number() : fallback;
}

void HuggingFaceConfig::check_count(const std::string& name, std::int64_t count) {
  const std::optional<Value> value = field(name);
  if (value && value->as_integer(0, kMost) != count)
    value->fail(fmt::format("the other fields make it {}", count));
}

std::string HuggingFaceConfig::text_or(const std::string& name, const std::string& fallback) {
  const std::optional<Value> value = field(name);
  return value ? value->as_string() : fallback;
}

void HuggingFaceConfig::read_like(DerivedFamily family) {
  ignore(family.ignored);
  for (const auto& [name, only] : family.required) require_value(name, only);
  derived_.push_back(std::move(family));
}

std::string HuggingFaceConfig::own_name(std::string name) const {
  for (const DerivedFamily& family : std::views::reverse(derived_))
    if (const auto own = family.names.find(name); own != family.names.end()) name = own->second;
  return name;
}

std::optional<Value> HuggingFaceConfig::usual(std::string name) const {
  std::optional<Value> nearest_own;
  for (const DerivedFamily& family : std::views::reverse(derived_)) {
    const auto usual = family.defaults.find(name);
    if (usual != family.defaults.end()) nearest_own = usual->second;
    if (const auto own = family.names.find(name); own != family.names.end()) name = own->second;
  }
  return nearest_own;
}

std::optional<Value> HuggingFaceConfig::field(const std::string& name) {
  const std::string own = own_name(name);
  asked_.insert(own);
  const std::optional<Value> value = map_.optional(own);
  return value && !value->is_null() ? value : usual(name);
}

void HuggingFaceConfig::ignore(const std::vector<std::string>& names) {
  asked_.insert(names.begin(), names.end());
}

void HuggingFaceConfig::finish(const std::string& family) {
  for (const std::string& key : map_.keys()) {
    if (asked_.contains(key)) continue;
    const std::string near = nearest(key, {asked_.begin(), asked_.end()});
    const Value value = map_.require(key);
    if (is_off(value) || (is_text(value) && near.empty())) {
      assume(fmt::format("the field {} of {} is not known, and what it says is left out: {}", key,
                         family, value.shown()));
      continue;
    }
    map_.at_key(key).mistake(
        fmt::format("no field of {} that is known here: it might change shapes", family),
        near.empty() ? "remove it from a copy of the file if it changes none"
                     : fmt::format("did you mean \"{}\"? else remove it from a copy of the file, "
                                   "if it changes no shape",
                                   near));
  }
}

void HuggingFaceConfig::require_value(const std::string& name, bool value) {
  const std::optional<Value> given = field(name);
  if (given && given->as_bool() != value)
    given->fail(fmt::format("only {}: {} is modelled", name, value));
}

void HuggingFaceConfig::require_null(const std::string& name) {
  if (const std::optional<Value> given = field(name))
    given->fail(fmt::format("only {}: null is modelled", name));
}

}  // namespace rehearse::inline model
