#pragma once

#include <filesystem>
#include <string>

namespace rehearse::inline base {

/// The folder with what Rehearse ships: `platforms/` and `scenarios/`. The first that has
/// `platforms/gpus.yaml` of:
///
/// 1. the environment's REHEARSE_DATA;
/// 2. `share/rehearse` beside the running program's `bin/`;
/// 3. the program's own folder and those above it, as in a clone;
/// 4. `share/rehearse` in the prefix that note_prefix() was told.
///
/// MissingError if there is none, or if REHEARSE_DATA names a folder without it.
std::filesystem::path data_folder();

/// The folder with GPUs, clusters, frameworks, families of models and measured profiles: what the
/// environment's REHEARSE_PLATFORMS names, else `platforms` in data_folder().
std::filesystem::path platforms_folder();

/// A file or folder of platforms_folder(), or where that has none, of `platforms` in data_folder():
/// who keeps GPUs of his own need not keep what they rest on.
std::filesystem::path platforms_path(const std::string& name);

/// Where the library was installed, for programs of others that link it: `rehearse.hpp` tells it.
/// Returns true, so that it can initialise a variable.
bool note_prefix(const char* prefix);

}  // namespace rehearse::inline base
