#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "foreign/assemble.hpp"

namespace rehearse::inline foreign {

/// A configuration of a training framework, as a scenario.
struct ImportedConfig {
  std::string scenario;  ///< its text
  std::string title;     ///< "a DeepSpeed configuration"
  Translation told;      ///< every setting of the files, in five lists
};

struct ImportOptionsOfConfig {
  Asked asked;
  std::string format;      ///< a name of format_names(); empty: by what is in the file
  std::string function{};  ///< of a Python registry, which has several configurations
  bool allow = false;      ///< settings that change the answer and cannot be said are left out
  bool read_back = true;   ///< false: whoever asks reads the scenario next, with more settings
};

/// Reads one file, or several that belong together (a training's and that of its DeepSpeed), whose
/// facts add up, and files that their settings name, where these are found. The scenario has been
/// read back and its schedule made, unless `read_back` is false. InputError where a file is none of
/// these or trains otherwise (with rewards), where a setting changes the answer and cannot be said
/// here and is not allowed to, where something is missing, and where nothing is understood.
/// MissingError where a file cannot be read.
ImportedConfig import_config(const std::vector<std::filesystem::path>& files,
                             const ImportOptionsOfConfig& options);

/// The five lists, one line for a setting.
std::string lists_of(const Translation& told);
std::string lists_as_json(const ImportedConfig& imported);
/// Its JSON Schema.
nlohmann::ordered_json imported_schema();

}  // namespace rehearse::inline foreign
