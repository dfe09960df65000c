#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <new>

#include "base/error.hpp"
#include "cli/commands.hpp"

namespace rehearse {
namespace {

/// The commands, each in its own file.
constexpr AddCommand kCommands[] = {add_comm_command, add_compute_command, add_list_command,
                                    add_step_command};

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

ExitCode run_program(int argc, char** argv) {
  const Invocation invocation{command_line(argc, argv)};
  CLI::App app("Measure real training steps on the hardware at hand.", "rehearse-calibrate");
  app.set_version_flag("--version", "rehearse-calibrate " REHEARSE_VERSION);
  app.require_subcommand(1);
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

/// The one place where errors end: their text on standard error, their code for the shell.
ExitCode run_and_report(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return ExitCode::missing;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return ExitCode::internal;
  }
}

}  // namespace
}  // namespace rehearse

int main(int argc, char** argv) {
  // A reader that closes its pipe is an answer of write(), not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  return static_cast<int>(rehearse::run_and_report(argc, argv));
}
