#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline config {

template <class Enum>
struct Choice {
  const char* name;
  Enum value;
};

/// The options of an enumeration by the names that files use, in the order of messages.
/// Named lists are constexpr: clusters are read before main() too.
template <class Enum>
using Choices = std::initializer_list<Choice<Enum>>;

template <class Enum>
std::vector<std::string> names_of(Choices<Enum> choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.emplace_back(name);
  return names;
}

template <class Enum>
Enum value_of(Choices<Enum> choices, const std::string& name) {
  for (const auto& [known, value] : choices) {
    if (known == name) return value;
  }
  throw InternalError("internal error: a choice that was read is not known: " + name);
}

template <class Enum>
std::string name_of(Choices<Enum> choices, Enum value) {
  for (const auto& [name, known] : choices) {
    if (known == value) return name;
  }
  throw InternalError("internal error: an option has no name");
}

}  // namespace rehearse::inline config
