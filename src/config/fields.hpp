#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "config/choices.hpp"
#include "config/document.hpp"
#include "config/key.hpp"

namespace rehearse::inline config {

/// How the value of a key is read, what it is called in the reference, and how a report states it.
template <class T>
struct Form {
  KeyType type;
  std::function<T(const Value&)> read;
  std::function<std::string(const T&)> say{};
  std::vector<Key> below{};  ///< of a map or a list: ".latency", "[].latency"
  bool is_own = true;        ///< of one reader alone, which tests/keys hold against `type`

  /// The same with a unit, or what else stands in parentheses.
  Form in(const char* unit) const {
    Form with = *this;
    with.type = type.in(unit);
    return with;
  }
  /// Turns the value into what `make` makes of it; for required keys and optional members alone.
  template <class Make>
  auto as(Make make) const {
    using Made = std::invoke_result_t<Make, T>;
    const auto made = [read = read, make](const Value& value) { return make(read(value)); };
    return Form<Made>{type, made, {}, below, is_own};
  }
};

/// One list of a record's keys gives its reader and its lines of the reference:
///
///     Fields<Checkpoint> checkpoint_fields() {
///       return {field("write", &Checkpoint::write, form::time(), "Time to write one."),
///               field("asynchronous", &Checkpoint::asynchronous, form::flag(), "Meanwhile.")};
///     }
///
/// read_fields(map, checkpoint_fields()) reads the record, and keys_of(checkpoint_fields()) are the
/// lines. What a member is initialised with is the default, which the reader notes. A member that
/// is optional has none.
template <class Record>
struct Field {
  std::vector<Key> keys;  ///< the key itself, and those below it
  std::function<void(Map&, Record&)> read;

  /// The same key, of whose default the reference says these words.
  Field otherwise(const char* words) && {
    keys.front().fallback = words;
    return std::move(*this);
  }
  /// The same key, which is asked for only where what was read before is so.
  Field where(std::function<bool(const Record&)> is_so) && {
    read = [read = std::move(read), is_so = std::move(is_so)](Map& map, Record& record) {
      if (is_so(record)) read(map, record);
    };
    return std::move(*this);
  }
};
template <class Record>
using Fields = std::vector<Field<Record>>;

template <class Record>
void read_fields(Map& map, const Fields<Record>& fields, Record& record) {
  for (const Field<Record>& field : fields) field.read(map, record);
}
template <class Record>
Record read_fields(Map& map, const Fields<Record>& fields) {
  Record record;
  read_fields(map, fields, record);
  return record;
}
/// Holds the keys of a map that was read against each other.
template <class Record>
using Check = std::type_identity_t<std::function<void(Map&, Record&)>>;
/// The same of a whole map.
template <class Record>
Record read_fields(const Value& value, const Fields<Record>& fields,
                   const Check<Record>& check = {}) {
  Map map = value.as_map();
  Record record = read_fields(map, fields);
  map.finish();
  if (check) check(map, record);
  return record;
}

template <class Record>
std::vector<Key> keys_of(const Fields<Record>& fields, const std::string& prefix = "") {
  std::vector<Key> keys;
  for (const Field<Record>& field : fields)
    for (const Key& key : field.keys) keys.emplace_back(key).name.insert(0, prefix);
  return keys;
}

// --- entries of a list

template <class Member>
inline constexpr bool is_optional_member = false;
template <class Some>
inline constexpr bool is_optional_member<std::optional<Some>> = true;

/// A member may be narrower than what its form reads, or optional.
template <class Member, class T>
void put(T value, Member& into) {
  if constexpr (std::is_same_v<Member, T>)
    into = std::move(value);
  else if constexpr (is_optional_member<Member>)
    into = static_cast<typename Member::value_type>(std::move(value));
  else
    into = static_cast<Member>(std::move(value));
}

/// The lines of a key and of those below it.
std::vector<Key> lines_of(Key key, const std::vector<Key>& below);
std::vector<Key> field_lines(const char* name, const KeyType& type, const char* fallback,
                             const char* meaning, const char* source, const std::vector<Key>& below,
                             bool is_field);

template <class Record, class Member, class T>
Field<Record> required(const char* name, Member Record::*member, const Form<T>& form,
                       const char* meaning, const char* source = "") {
  return {field_lines(name, form.type, "required", meaning, source, form.below, !form.is_own),
          [name, member, read = form.read](Map& map, Record& record) {
            put(read(map.require(name)), record.*member);
          }};
}

/// A key whose default is no assumption: nothing notes it, and the reference has its own words.
template <class Record, class Member, class T>
Field<Record> silent(const char* name, Member Record::*member, const Form<T>& form,
                     const char* meaning, const char* source = "") {
  return {field_lines(name, form.type, "-", meaning, source, form.below, !form.is_own),
          [name, member, read = form.read](Map& map, Record& record) {
            if (const std::optional<Value> value = map.optional(name))
              put(read(*value), record.*member);
          }};
}

/// The same, whose default the reference says in parentheses.
template <class Record, class Member, class T>
Field<Record> implied(const char* name, Member Record::*member, const Form<T>& form,
                      const char* meaning) {
  Field<Record> one = silent(name, member, form, meaning);
  one.keys.front().fallback = "(" + form.say(static_cast<T>(Record{}.*member)) + ")";
  return one;
}

template <class Record, class Member, class T>
Field<Record> field(const char* name, Member Record::*member, const Form<T>& form,
                    const char* meaning, const char* source = "") {
  Field<Record> one = silent(name, member, form, meaning, source);
  if constexpr (!is_optional_member<Member>) {
    const std::string usual = form.say(static_cast<T>(Record{}.*member));
    one.keys.front().fallback = usual;
    one.read = [name, usual, read = one.read](Map& map, Record& record) {
      read(map, record);
      if (!map.has(name)) map.string_or(name, usual);
    };
  }
  return one;
}

/// The form of a flag, a text, a time, a size or a rate, which its type says.
template <class T>
Form<T> form_of();
template <>
Form<bool> form_of();
template <>
Form<std::string> form_of();
template <>
Form<Seconds> form_of();
template <>
Form<Bytes> form_of();
template <>
Form<BytesPerSecond> form_of();
template <>
Form<FlopsPerSecond> form_of();
template <class Member>
auto member_form() {
  if constexpr (is_optional_member<Member>)
    return form_of<typename Member::value_type>();
  else
    return form_of<Member>();
}

// The same with the form that the member's type says.
template <class Record, class Member>
Field<Record> required(const char* name, Member Record::*member, const char* meaning,
                       const char* source = "") {
  return required(name, member, member_form<Member>(), meaning, source);
}
template <class Record, class Member>
Field<Record> silent(const char* name, Member Record::*member, const char* meaning,
                     const char* source = "") {
  return silent(name, member, member_form<Member>(), meaning, source);
}
template <class Record, class Member>
Field<Record> field(const char* name, Member Record::*member, const char* meaning,
                    const char* source = "") {
  return field(name, member, member_form<Member>(), meaning, source);
}

/// A required map with keys of the same record.
template <class Record>
Field<Record> group(const char* name, const Fields<Record>& fields, const char* meaning) {
  return {field_lines(name, type::map(), "required", meaning, "", keys_of(fields, "."), true),
          [name, fields](Map& map, Record& record) {
            Map own = map.require(name).as_map();
            read_fields(own, fields, record);
            own.finish();
          }};
}

// --- forms

namespace form {

Form<std::int64_t> integer(std::int64_t low, std::int64_t high);
/// It reads an integer as an int.
Form<int> count(std::int64_t low, std::int64_t high);
Form<double> number();
Form<double> positive();
Form<double> not_negative();
Form<double> within(double low, double high);
Form<Seconds> time_above_0();
Form<Bytes> size_above_0();
Form<std::string> one_of(const std::vector<std::string>& names);

template <class Enum>
Form<Enum> choice(Choices<Enum> choices) {
  const Form<std::string> one = one_of(names_of(choices));
  const std::vector<Choice<Enum>> known = choices;
  return {one.type,
          [known, read = one.read](const Value& value) {
            return std::ranges::find(known, read(value), &Choice<Enum>::name)->value;
          },
          [known](const Enum& value) {
            return std::ranges::find(known, value, &Choice<Enum>::value)->name;
          },
          {},
          false};
}

/// An enumeration whose names stand in its order.
template <class Enum>
Form<Enum> named(const std::vector<std::string>& names) {
  const Form<std::string> one = one_of(names);
  return {one.type,
          [names, read = one.read](const Value& value) {
            return static_cast<Enum>(std::ranges::find(names, read(value)) - names.begin());
          },
          [names](const Enum& value) { return names.at(static_cast<std::size_t>(value)); },
          {},
          false};
}

/// The value itself, of which its reader makes what it stands for.
Form<Value> as_it_stands(const KeyType& type, const std::vector<Key>& below = {});

/// A map with a list of fields of its own; `check` holds them against each other.
template <class Record>
Form<Record> map(const Fields<Record>& fields, const Check<Record>& check = {}) {
  return {type::map(),
          [fields, check](const Value& value) { return read_fields(value, fields, check); },
          {},
          keys_of(fields, "."),
          false};
}

/// Every item of it; `check` holds the last one against those before it.
template <class T>
Form<std::vector<T>> list(
    const Form<T>& item,
    const std::type_identity_t<std::function<void(const Value&, const std::vector<T>&)>>& check =
        {}) {
  const auto read = [read = item.read, check](const Value& value) {
    std::vector<T> all;
    for (const Value& one : value.as_list()) {
      all.push_back(read(one));
      if (check) check(one, all);
    }
    return all;
  };
  Form<std::vector<T>> form{type::list_of(item.type), read, {}, item.below, item.is_own};
  for (Key& key : form.below) key.name.insert(0, "[]");
  return form;
}

}  // namespace form

}  // namespace rehearse::inline config
