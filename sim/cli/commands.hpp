#pragma once

#include <CLI/CLI.hpp>

namespace rehearse::inline cli {

/// Each adds one command with its options, which runs where the command line names it.

void add_run(CLI::App& app);
void add_check(CLI::App& app);
void add_explain(CLI::App& app);
void add_forecast(CLI::App& app);
void add_curves(CLI::App& app);
void add_list(CLI::App& app);
void add_model(CLI::App& app);
void add_collective(CLI::App& app);
void add_decode(CLI::App& app);
void add_import(CLI::App& app);
void add_export(CLI::App& app);
void add_validate(CLI::App& app);
void add_sweep(CLI::App& app);
void add_plan(CLI::App& app);
void add_collect(CLI::App& app);
void add_compare(CLI::App& app);
void add_measured(CLI::App& app);
void add_serve(CLI::App& app);
/// These tell of all commands that `app` has when they run.
void add_help_topic(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

/// Lets no option of `app` and of its commands have an empty value, as `--strategy ''`.
void refuse_empty_values(CLI::App& app);

/// The message about a command line that could not be parsed, with the nearest command or
/// option.
std::string usage_message(const CLI::App& app, const CLI::ParseError& wrong, int argc, char** argv);

}  // namespace rehearse::inline cli
