#include "config/key_type.hpp"

#include <fmt/format.h>

#include <utility>

namespace rehearse::inline config {
namespace {

std::string number_text(const KeyType::One& one) {
  const std::string name = one.kind == KeyType::Kind::integer ? "integer" : "number";
  if (!one.low || (one.high && !one.above)) return name;
  return fmt::format("{} {} {}", name, one.above ? ">" : ">=", *one.low);
}

/// What stands in parentheses: the range, the unit, or what a text is.
std::string note_of(const KeyType::One& one) {
  std::string text;
  if (one.high)
    text = one.above ? fmt::format("at most {}", *one.high)
                     : fmt::format("{} to {}", *one.low, *one.high);
  if (!one.note.empty()) text += (text.empty() ? "" : ", ") + one.note;
  if (!one.beside.empty()) text += fmt::format("{}or `{}`", text.empty() ? "" : ", ", one.beside);
  return text;
}

std::string name_of(const KeyType::One& one) {
  using enum KeyType::Kind;
  switch (one.kind) {
    case text:
      return "text";
    case word:
      return "text";
    case flag:
      return "true or false";
    case integer:
    case number:
      return number_text(one);
    case time:
      return "time";
    case size:
      return "size";
    case data_rate:
      return "data rate";
    case arithmetic_rate:
      return "arithmetic rate";
    case choice:
      return fmt::format("{}", fmt::join(one.names, " | "));
    case name:
      return one.words.empty() ? "a name" : fmt::format("a name of `{}`", one.words);
    case map:
      return "map";
    case list:
      return one.items.empty() ? "list" : "list of " + one.items.front().text();
    case like:
      return "as " + one.words;
  }
  return "";
}

}  // namespace

KeyType::KeyType(One one) : alternatives_{std::move(one)} {}
KeyType::KeyType(const KeyType&) = default;
KeyType::KeyType(KeyType&&) noexcept = default;
KeyType& KeyType::operator=(const KeyType&) = default;
KeyType& KeyType::operator=(KeyType&&) noexcept = default;
KeyType::~KeyType() = default;

KeyType KeyType::in(const char* note) const {
  KeyType with = *this;
  with.alternatives_.back().note = note;
  return with;
}

KeyType KeyType::to(double high) const {
  KeyType with = *this;
  with.alternatives_.back().high = high;
  return with;
}

KeyType KeyType::or_word(const char* word) const {
  KeyType with = *this;
  with.alternatives_.back().beside = word;
  return with;
}

std::string KeyType::text() const {
  std::string all;
  for (const One& one : alternatives_) {
    const std::string note = one.kind == Kind::word ? one.words : note_of(one);
    all += fmt::format("{}{}{}", all.empty() ? "" : " or ", name_of(one),
                       note.empty() ? "" : fmt::format(" ({})", note));
  }
  return all;
}

std::string KeyType::unit() const {
  if (alternatives_.size() > 1) return "";
  const One& one = alternatives_.front();
  if (one.kind == Kind::list) return one.items.empty() ? "" : one.items.front().unit();
  return one.kind == Kind::word ? one.words : note_of(one);
}

std::string KeyType::name() const {
  const std::string whole = text(), in_parentheses = unit();
  if (in_parentheses.empty()) return whole;
  return whole.substr(0, whole.size() - in_parentheses.size() - 3);
}

KeyType operator|(KeyType one, const KeyType& other) {
  for (const KeyType::One& more : other.alternatives_) one.alternatives_.push_back(more);
  return one;
}

namespace type {

using Kind = KeyType::Kind;
using One = KeyType::One;

KeyType text() { return KeyType(One{.kind = Kind::text}); }
KeyType text(const char* what) { return text().in(what); }
KeyType word(const char* word) { return KeyType(One{.kind = Kind::word, .words = word}); }
KeyType flag() { return KeyType(One{.kind = Kind::flag}); }
KeyType integer() { return KeyType(One{.kind = Kind::integer}); }
KeyType integer(double low) { return KeyType(One{.kind = Kind::integer, .low = low}); }
KeyType number() { return KeyType(One{.kind = Kind::number}); }
KeyType above(double low) { return KeyType(One{.kind = Kind::number, .low = low, .above = true}); }
KeyType at_least(double low) { return KeyType(One{.kind = Kind::number, .low = low}); }
KeyType within(double low, double high) { return at_least(low).to(high); }
KeyType time() { return KeyType(One{.kind = Kind::time}); }
KeyType size() { return KeyType(One{.kind = Kind::size}); }
KeyType data_rate() { return KeyType(One{.kind = Kind::data_rate}); }
KeyType arithmetic_rate() { return KeyType(One{.kind = Kind::arithmetic_rate}); }
KeyType choice(std::vector<std::string> names) {
  return KeyType(One{.kind = Kind::choice, .names = std::move(names)});
}
KeyType name() { return KeyType(One{.kind = Kind::name}); }
KeyType name_of(const char* list) { return KeyType(One{.kind = Kind::name, .words = list}); }
KeyType map() { return KeyType(One{.kind = Kind::map}); }
KeyType list() { return KeyType(One{.kind = Kind::list}); }
KeyType list_of(KeyType item) {
  return KeyType(One{.kind = Kind::list, .items = {std::move(item)}});
}
KeyType like(const char* path) { return KeyType(One{.kind = Kind::like, .words = path}); }

}  // namespace type

}  // namespace rehearse::inline config
