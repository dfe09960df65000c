#include <fmt/format.h>

#include <iostream>

#include "base/error.hpp"
#include "base/program.hpp"
#include "cli/commands.hpp"
#include "measure/kept_heap.hpp"

namespace rehearse::inline calibrate {
namespace {

/// The commands, each in its own file.
constexpr AddCommand kCommands[] = {add_comm_command, add_compute_command, add_kernels_command,
                                    add_list_command, add_replay_command,  add_step_command};

/// The words as a shell would take them.
std::string command_line(int argc, char** argv) {
  std::string text = "rehearse-calibrate";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'$\\*") == std::string::npos;
    text += plain ? " " + word : " '" + word + "'";
  }
  return text;
}

ExitCode run_command_line(int argc, char** argv) {
  const Invocation invocation{command_line(argc, argv)};
  CLI::App app(
      "Measure this machine, for `rehearse run`: without a command, all that a prediction needs.",
      "rehearse-calibrate");
  app.set_version_flag("--version", "rehearse-calibrate " REHEARSE_VERSION);
  app.require_subcommand(0, 1);
  add_machine_options(app, invocation);
  for (const AddCommand add : kCommands) add(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return static_cast<ExitCode>(app.exit(wrong));  // --help
    throw InputError(fmt::format(
        "rehearse-calibrate: error: {}\nremedy: rehearse-calibrate --help lists the commands, and "
        "--help after a command its options",
        wrong.what()));
  }
  return ExitCode::success;
}

}  // namespace
}  // namespace rehearse::inline calibrate

int main(int argc, char** argv) {
  if (!rehearse::keep_freed_memory()) {
    std::cerr << "rehearse-calibrate: warning: this C library gives freed memory back; times hold "
                 "the page faults of taking it again\n";
  }
  return rehearse::run_program([&] { return rehearse::run_command_line(argc, argv); });
}
