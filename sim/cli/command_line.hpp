#pragma once

#include "base/error.hpp"

namespace rehearse::inline cli {

/// Parses the command line and runs the subcommand that it names.
ExitCode run_command_line(int argc, char** argv);

}  // namespace rehearse::inline cli
