#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "train/step_run.hpp"

namespace rehearse::inline calibrate {

/// Adds what DDP and FSDP can be asked for, under PyTorch's names.
void add_strategy_options(CLI::App& step, StepRunOptions& run);

/// InputError for an option of another strategy, which would change nothing.
void check_strategy_options(const CLI::App& step, const std::string& strategy);

}  // namespace rehearse::inline calibrate
