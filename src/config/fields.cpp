#include "config/key_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rehearse::inline config {
namespace {

std::string say_number(double number) { return fmt::format("{:.15g}", number); }

template <class Quantity>
std::string say_quantity(const Quantity& quantity) {
  return format(quantity);
}

double read_within(const Value& value, double low, double high) {
  const double number = value.as_number();
  if (number >= low && number <= high) return number;
  value.mistake(
      fmt::format("expected a number from {} to {}; got \"{}\"", low, high, value.shown()));
  return std::clamp(number, low, high);
}

}  // namespace

Key::Key(const char* its_name, KeyType its_type, const char* its_fallback, const char* its_meaning,
         const char* its_source)
    : name(its_name),
      type(std::move(its_type)),
      fallback(its_fallback),
      meaning(its_meaning),
      source(its_source) {}
Key::Key(const Key&) = default;
Key::Key(Key&&) noexcept = default;
Key& Key::operator=(const Key&) = default;
Key& Key::operator=(Key&&) noexcept = default;
Key::~Key() = default;

std::vector<Key> field_lines(const char* name, const KeyType& type, const char* fallback,
                             const char* meaning, const char* source, const std::vector<Key>& below,
                             bool is_field) {
  Key key(name, type, fallback, meaning, source);
  key.is_field = is_field;
  return lines_of(key, below);
}

void KeyList::append(std::vector<Key> lines) {
  std::ranges::move(lines, std::back_inserter(lines_));
}

std::vector<Key> KeyList::below(const char* prefix) const {
  std::vector<Key> lines = lines_;
  for (Key& line : lines) line.name.insert(0, prefix);
  return lines;
}

std::vector<Key> lines_of(Key key, const std::vector<Key>& below) {
  std::vector<Key> lines;
  for (const Key& one : below) lines.emplace_back(one).name.insert(0, key.name);
  lines.insert(lines.begin(), std::move(key));
  return lines;
}

template <>
Form<bool> form_of() {
  const auto say = [](bool value) { return std::string(value ? "true" : "false"); };
  return {type::flag(), &Value::as_bool, say, {}, false};
}

template <>
Form<std::string> form_of() {
  const auto say = [](const std::string& text) { return text.empty() ? "\"\"" : text; };
  return {type::text(), &Value::as_string, say, {}, false};
}

template <>
Form<Seconds> form_of() {
  return {type::time(), &Value::as_seconds, say_quantity<Seconds>, {}, false};
}

template <>
Form<Bytes> form_of() {
  return {type::size(), &Value::as_bytes, say_quantity<Bytes>, {}, false};
}

template <>
Form<BytesPerSecond> form_of() {
  return {type::data_rate(), &Value::as_bytes_per_second, say_quantity<BytesPerSecond>, {}, false};
}

template <>
Form<FlopsPerSecond> form_of() {
  return {type::arithmetic_rate(), &Value::as_flops_per_second, {}, {}, false};
}

namespace form {

Form<std::int64_t> integer(std::int64_t low, std::int64_t high) {
  const auto read = [low, high](const Value& value) { return value.as_integer(low, high); };
  const auto say = [](std::int64_t number) { return std::to_string(number); };
  return {type::integer(static_cast<double>(low)), read, say, {}, false};
}

Form<int> count(std::int64_t low, std::int64_t high) {
  const auto read = [low, high](const Value& value) {
    return static_cast<int>(value.as_integer(low, high));
  };
  const auto say = [](int number) { return std::to_string(number); };
  return {type::integer(static_cast<double>(low)), read, say, {}, false};
}

Form<double> number() { return {type::number(), &Value::as_number, say_number, {}, false}; }

Form<double> positive() {
  return {type::above(0), &Value::as_positive_number, say_number, {}, false};
}

Form<double> not_negative() {
  return {type::at_least(0), &Value::as_non_negative_number, say_number, {}, false};
}

Form<double> within(double low, double high) {
  const auto read = [low, high](const Value& value) { return read_within(value, low, high); };
  return {type::within(low, high), read, say_number, {}, false};
}

Form<Seconds> time_above_0() {
  auto above = form_of<Seconds>();
  above.read = [](const Value& value) {
    const Seconds time = value.as_seconds();
    if (time <= Seconds(0)) value.fail("expected a time above 0; got \"" + value.shown() + "\"");
    return time;
  };
  return above;
}

Form<Bytes> size_above_0() {
  auto above = form_of<Bytes>();
  above.read = [](const Value& value) {
    const Bytes size = value.as_bytes();
    if (size <= Bytes(0)) value.fail("expected a size above zero; got " + value.shown());
    return size;
  };
  return above;
}

Form<std::string> one_of(const std::vector<std::string>& names) {
  const auto read = [names](const Value& value) { return value.as_choice(names); };
  return {type::choice(names), read, form_of<std::string>().say, {}, false};
}

Form<Value> as_it_stands(const KeyType& type, const std::vector<Key>& below) {
  return {type, [](const Value& value) { return value; }, {}, below};
}

}  // namespace form

}  // namespace rehearse::inline config
