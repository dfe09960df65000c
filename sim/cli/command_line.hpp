#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"

namespace rehearse {

/// Each adds a command with its options: where the line that is parsed names it, `command` is
/// filled, and runs. `command` outlives the parsing.

void add_run(CLI::App& app, RunCommand& command);
void add_check(CLI::App& app, CheckCommand& command);
void add_explain(CLI::App& app, ExplainCommand& command);
void add_forecast(CLI::App& app, ForecastCommand& command);
void add_curves(CLI::App& app, CurvesCommand& command);

void add_collective(CLI::App& app, CollectiveCommand& command);
void add_import(CLI::App& app, ImportCommand& command);
void add_validate(CLI::App& app, ValidateCommand& command);

void add_sweep(CLI::App& app, SweepCommand& command);
void add_plan(CLI::App& app, PlanCommand& command);
void add_collect(CLI::App& app, CollectCommand& command);

}  // namespace rehearse
