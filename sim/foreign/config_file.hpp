#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "foreign/entry.hpp"
#include "foreign/format.hpp"

namespace rehearse::inline foreign {

/// The settings of one configuration, command line or script, and whose they are.
struct ConfigFile {
  std::vector<Entry> entries;
  const Format* format = nullptr;
};

/// Reads it; `asked` is a name of format_names(), or empty: by what is in the file. `function` is
/// that of a Python registry's which returns the configuration, or empty. InputError where
/// it is none that is known, or one that trains otherwise than is read here. MissingError where it
/// cannot be read.
ConfigFile read_config_file(const std::filesystem::path& file, const std::string& asked,
                            const std::string& function);

/// Whether a file is a configuration that is read here.
bool is_foreign_config(const std::filesystem::path& file);

}  // namespace rehearse::inline foreign
