#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rehearse::inline calibrate {

/// Facts that every command is told.
struct Invocation {
  std::string command_line;  ///< as typed, for the provenance of profiles
};

/// Adds a subcommand with its options. Its callback does the work, and throws Error where it fails.
using AddCommand = void (*)(CLI::App& app, const Invocation& invocation);

/// The options of the program without a command: measures the machine.
void add_machine_options(CLI::App& app, const Invocation& invocation);

// One per file, cli/<name>_command.cpp; main.cpp lists them.
void add_comm_command(CLI::App& app, const Invocation& invocation);
void add_compute_command(CLI::App& app, const Invocation& invocation);
void add_kernels_command(CLI::App& app, const Invocation& invocation);
void add_list_command(CLI::App& app, const Invocation& invocation);
void add_replay_command(CLI::App& app, const Invocation& invocation);
void add_step_command(CLI::App& app, const Invocation& invocation);

}  // namespace rehearse::inline calibrate
