#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "planner/typed_question.hpp"

namespace rehearse::inline cli {

void add_import_config(CLI::App& import_app);
void add_import_log(CLI::App& import_app);
void add_import_profiler(CLI::App& import_app);
void add_import_chakra(CLI::App& import_app);
void add_import_topology(CLI::App& import_app);

/// The scenario that a file is. Of a training framework's configuration: the name of a text that is
/// kept as if it had been read (FilesKept, which must live). The question's machines, model, length
/// and batch, where `app` got them, stand for what such a file leaves out. CLI::ParseError where
/// they stand beside a scenario.
std::filesystem::path scenario_of(const std::filesystem::path& file, const TypedQuestion& question,
                                  const CLI::App& app);

}  // namespace rehearse::inline cli
