#include "config/json/json_place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/printable.hpp"

namespace rehearse::inline config {
namespace {

constexpr std::size_t kShownBytes = 60;

/// What stands there instead, for messages: in ASCII, so that it can be cut anywhere.
std::string shown(const JsonPlace::Json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_object()) return "an object";
  if (value->is_array()) return "a list";
  std::string text = value->dump(-1, ' ', true);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return (value->is_string() ? "the text " : "") + text;
}

}  // namespace

nlohmann::ordered_json parse_json(const std::string& text, const std::string& file) {
  using Json = nlohmann::ordered_json;
  try {
    Json document = Json::parse(text);
    return document;
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    throw InputError(fmt::format("{}:{}: error: this is no JSON, or not all of it", file,
                                 std::count(text.begin(), end, '\n') + 1));
  } catch (const Json::exception&) {
    throw InputError(fmt::format("{}: error: a number that is too large", file));
  }
}

JsonPlace JsonPlace::below(const Json* value, const std::string& step) const {
  JsonPlace place = *this;
  place.value_ = value;
  const bool joined = path_.empty() || step.starts_with('[');
  place.path_ = joined ? path_ + step : path_ + "." + step;
  place.nullable_ = false;
  return place;
}

JsonPlace JsonPlace::at(const std::string& key) const {
  if (value_ == nullptr || !value_->is_object()) fail("an object");
  const auto found = value_->find(key);
  return below(found == value_->end() ? nullptr : &*found, key);
}

std::optional<JsonPlace> JsonPlace::find(const std::string& key) const {
  JsonPlace place = at(key);
  if (place.value_ == nullptr) return std::nullopt;
  return place;
}

double JsonPlace::number() const {
  if (value_ == nullptr || !value_->is_number()) fail("a number");
  return value_->get<double>();
}

std::optional<double> JsonPlace::number_or_null() const {
  return or_null([](const JsonPlace& json) { return json.number(); });
}

bool JsonPlace::flag() const {
  if (value_ == nullptr || !value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

std::string JsonPlace::text() const {
  if (value_ == nullptr || !value_->is_string()) fail("a text");
  return escaped(value_->get<std::string>());
}

std::vector<JsonPlace> JsonPlace::list() const {
  if (value_ == nullptr || !value_->is_array()) fail("a list");
  std::vector<JsonPlace> all;
  for (std::size_t i = 0; i < value_->size(); ++i)
    all.push_back(below(&(*value_)[i], fmt::format("[{}]", i)));
  return all;
}

std::vector<std::pair<std::string, JsonPlace>> JsonPlace::entries() const {
  if (value_ == nullptr || !value_->is_object()) fail("an object");
  std::vector<std::pair<std::string, JsonPlace>> all;
  for (const auto& [key, value] : value_->items()) all.emplace_back(key, below(&value, key));
  return all;
}

std::size_t JsonPlace::index_of(const std::string& name,
                                const std::vector<std::string>& names) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    const Json got = name;
    fail(fmt::format("one of {}", fmt::join(names, ", ")), shown(&got));
  }
  return static_cast<std::size_t>(found - names.begin());
}

void JsonPlace::fail(const std::string& expected, const std::string& got) const {
  throw InputError(fmt::format("{}: error: {}expected {}{}; got {}", *file_,
                               path_.empty() ? "" : path_ + ": ", expected,
                               nullable_ ? " or null" : "", got.empty() ? shown(value_) : got));
}

}  // namespace rehearse::inline config
