#pragma once

#include <string>

namespace rehearse::inline config {

/// One key of a file, as the reference of keys has it.
struct Key {
  std::string name;      ///< below its section; `[]` stands for each item, NAME for any name
  std::string type;      ///< alternatives with " or "; the unit of a number in parentheses
  std::string fallback;  ///< "required", "-" (nothing), the default, or words in parentheses
  std::string meaning;
  std::string source{};   ///< who defined it; empty: as its section says
  bool is_field = false;  ///< a form of fields.hpp reads it, so that it says type and default
};

}  // namespace rehearse::inline config
