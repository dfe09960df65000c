#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace rehearse::inline serve {

/// How a run of this program as a process of its own ended.
struct ProgramRun {
  int status = 0;  ///< its exit code; -1: a signal ended it
  bool timed_out = false;
  std::string output, errors;
};

struct ProgramLimits {
  std::chrono::milliseconds time{30'000};     ///< then it is killed, with its children
  std::size_t memory = std::size_t{8} << 30;  ///< bytes of its address space, and of each child's
  std::size_t output = std::size_t{64} << 20;
  const std::atomic<bool>* stop = nullptr;  ///< once it is true, the run is killed
  /// Called with all that stands on standard error so far, whenever more has come.
  std::function<void(const std::string&)> on_errors{};
};

/// Runs this program with these words and this text as its standard input. Safe in a process of
/// several threads. MissingError where there is no process or pipe to be had.
ProgramRun run_program_with(const std::vector<std::string>& words, const std::string& input,
                            const ProgramLimits& limits = {});

}  // namespace rehearse::inline serve
