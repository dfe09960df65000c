#pragma once

#include <filesystem>

#include "validation/cases.hpp"

namespace rehearse::inline validation {

/// Whether a set is a table of somebody's own runs (read_runs_file), by its ending.
bool is_runs_file(const std::filesystem::path& file);

/// Cases of a CSV table with a row for each run. Its columns are those of published tables:
/// dimensions, GPUs, degrees, and what was measured. An empty cell is not stated. Lines that begin
/// with # are comments. Runs of one model, batch and number of GPUs are rivals. InputError at the
/// cell that is wrong.
CaseFile read_runs_file(const std::filesystem::path& file);

}  // namespace rehearse::inline validation
