#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "foreign/assemble.hpp"

namespace rehearse::inline foreign {

/// A configuration of a training framework, as a scenario.
struct ImportedConfig {
  std::string scenario;  ///< its text
  std::string title;     ///< "a DeepSpeed configuration"
  Translation told;      ///< every setting of the files, in four lists
};

struct ImportOptionsOfConfig {
  Asked asked;
  std::string format;  ///< a name of format_names(); empty: by what is in the file
  bool allow = false;  ///< settings that change the answer and cannot be said are left out
};

/// Reads one file, or several that belong together (a training's and that of its DeepSpeed), whose
/// facts add up. InputError where a file is none of these, where a setting changes the answer and
/// cannot be said here and is not allowed to, and where something is missing. MissingError where a
/// file cannot be read.
ImportedConfig import_config(const std::vector<std::filesystem::path>& files,
                             const ImportOptionsOfConfig& options);

/// The four lists, one line for a setting.
std::string lists_of(const Translation& told);
std::string lists_as_json(const ImportedConfig& imported);

/// Whether a file is a configuration that is read here.
bool is_foreign_config(const std::filesystem::path& file);

}  // namespace rehearse::inline foreign
