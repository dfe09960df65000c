#pragma once

#include <functional>

#include "base/error.hpp"

namespace rehearse {

/// The whole of a main(): runs `program` and returns what the process ends with. The one place
/// where errors end: their text on standard error, their code for the shell. A reader that closes
/// its pipe is from here on an answer of write(), not the end of the process.
int run_program(const std::function<ExitCode()>& program);

}  // namespace rehearse
