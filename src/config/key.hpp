#pragma once

#include <string>

#include "config/key_type.hpp"

namespace rehearse::inline config {

/// One key of a file, as the reference of keys has it. Its members are defined apart: tables make
/// hundreds of them, which would take seconds to compile inline.
struct Key {
  Key(const char* its_name, KeyType its_type, const char* its_fallback, const char* its_meaning,
      const char* its_source = "");
  Key(const Key&);
  Key(Key&&) noexcept;
  Key& operator=(const Key&);
  Key& operator=(Key&&) noexcept;
  ~Key();

  std::string name;  ///< below its section; `[]` stands for each item, NAME for any name
  KeyType type;
  std::string fallback;  ///< "required", "-" (nothing), the default, or words in parentheses
  std::string meaning;
  std::string source;     ///< who defined it; empty: as its section says
  bool is_field = false;  ///< a form of fields.hpp reads it, so that it says type and default
};

}  // namespace rehearse::inline config
