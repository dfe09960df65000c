#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

namespace rehearse::inline cli {

void add_import_config(CLI::App& import_app);
void add_import_log(CLI::App& import_app);
void add_import_profiler(CLI::App& import_app);
void add_import_chakra(CLI::App& import_app);
void add_import_topology(CLI::App& import_app);

/// The scenario that a file is. Of a training framework's configuration, which runs on the machines
/// `on`: the name of a text that is kept as if it had been read (FilesKept, which must live).
/// CLI::ParseError where `on` stands beside a scenario.
std::filesystem::path scenario_of(const std::filesystem::path& file, const std::string& on);

}  // namespace rehearse::inline cli
