#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.hpp"
#include "base/quantity.hpp"

namespace rehearse::inline base {

/// How many children run side by side, and what ends them early.
struct ChildLimits {
  std::size_t jobs = 1;  ///< >= 1
  /// Time limit of each child; then it is killed and ends with ExitCode::missing.
  std::optional<Seconds> timeout = {};
  /// Bytes that each child, and each child of its own, may allocate (RLIMIT_DATA); then it is out
  /// of memory.
  std::optional<Bytes> memory = {};
  /// Function that is asked at least five times a second. Once it is true, no more children start
  /// and those that run are killed.
  std::function<bool()> stop = nullptr;
};

/// `asked`; as many as there are cores where it is 0 or less.
std::size_t jobs_or_cores(int asked = 0);

/// Runs work(0) to work(count - 1), each in a child process of its own, and tells `ended` how each
/// of them ended, in the order in which they do. False if `stop` left some out.
bool run_children(std::size_t count, const ChildLimits& limits,
                  const std::function<std::string(std::size_t)>& work,
                  const std::function<void(std::size_t, ChildEnd)>& ended);

/// The same without limits but `jobs`, for ends in the order of their work. `ended`, where given,
/// is called with the number of children that have ended, after each.
std::vector<ChildEnd> in_child_processes(std::size_t count, std::size_t jobs,
                                         const std::function<std::string(std::size_t)>& work,
                                         const std::function<void(std::size_t)>& ended = nullptr);

}  // namespace rehearse::inline base
