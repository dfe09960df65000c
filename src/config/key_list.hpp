#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"

namespace rehearse::inline config {

/// A key that its reader asks for where other keys, or the framework, say so. Its name, its form
/// and what the reference says of it stand here alone; conditions stay the reader's code.
template <class T>
class KeyOf {
 public:
  KeyOf(std::string its_name, Form<T> its_form)
      : name(std::move(its_name)), form(std::move(its_form)) {}

  const std::string name;
  const Form<T> form;

  /// Returns what the map says; nothing where it is missing, which is no assumption.
  std::optional<T> in(Map& map) const {
    const std::optional<Value> value = map.optional(name);
    return value ? std::optional<T>(form.read(*value)) : std::nullopt;
  }
  /// Returns what the map says, or `usual`, which is noted as an assumption.
  T in(Map& map, const T& usual) const {
    if (const std::optional<T> given = in(map)) return *given;
    map.string_or(name, form.say(usual));
    return usual;
  }
  T required_in(Map& map) const { return form.read(map.require(name)); }
};

/// The keys of a section, in the order of the reference. They are the members of what is
/// made of it:
///
///     struct DdpKeys : KeyList {
///       KeyOf<bool> static_graph = add<bool>("static_graph", "false", "Stated.");
///     };
///
/// Then `ddp_keys.static_graph.in(map, false)` reads it, and `ddp_keys.lines()` are the lines.
class KeyList {
 public:
  const std::vector<Key>& lines() const { return lines_; }
  /// Returns them as keys of a map, ".latency", or of a list, "[].latency": for Form::below.
  std::vector<Key> below(const char* prefix = ".") const;

 protected:
  /// `fallback` is what Key has: "required", "-", the default, or words in parentheses.
  template <class T>
  KeyOf<T> add(const char* name, const Form<T>& form, const char* fallback, const char* meaning,
               const char* source = "") {
    append(field_lines(name, form.type, fallback, meaning, source, form.below, !form.is_own));
    return {name, form};
  }
  /// It takes the form that the type says.
  template <class T>
  KeyOf<T> add(const char* name, const char* fallback, const char* meaning,
               const char* source = "") {
    return add(name, form_of<T>(), fallback, meaning, source);
  }

 private:
  void append(std::vector<Key> lines);

  std::vector<Key> lines_;
};

}  // namespace rehearse::inline config
