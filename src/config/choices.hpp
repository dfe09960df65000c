#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline config {

/// The options of an enumeration by the names that files use, in the order of messages.
template <class Enum>
using Choices = std::vector<std::pair<std::string, Enum>>;

template <class Enum>
std::vector<std::string> names_of(const Choices<Enum>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return names;
}

template <class Enum>
Enum value_of(const Choices<Enum>& choices, const std::string& name) {
  for (const auto& [known, value] : choices) {
    if (known == name) return value;
  }
  throw InternalError("internal error: a choice that was read is not known: " + name);
}

template <class Enum>
const std::string& name_of(const Choices<Enum>& choices, Enum value) {
  for (const auto& [name, known] : choices) {
    if (known == value) return name;
  }
  throw InternalError("internal error: an option has no name");
}

}  // namespace rehearse::inline config
