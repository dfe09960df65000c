#pragma once

#include <functional>

#include "base/error.hpp"

namespace rehearse::inline base {

/// The whole of a main(): runs `program` and returns what the process ends with. The one place
/// where errors end: their text on standard error, their code for the shell. From here on a reader
/// that closes its pipe is an answer of write(), and memory that runs out is an Error, not the end
/// of the process by a signal.
int run_program(const std::function<ExitCode()>& program);

}  // namespace rehearse::inline base
