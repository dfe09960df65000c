#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace rehearse {

/// How a child process ended: its text, or the code and the text of the Error that ended it. A
/// child that died of a signal ends with ExitCode::internal.
struct ChildEnd {
  ExitCode code = ExitCode::success;
  std::string text;
};

/// `work` running in a child process, with its text coming through a pipe. Destroying it ends a
/// child that still runs.
class ChildProcess {
 public:
  /// MissingError if the system gives no process or pipe.
  explicit ChildProcess(const std::function<std::string()>& work);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t process() const { return process_; }
  /// To wait on until there is text, or its end.
  int descriptor() const { return descriptor_; }
  /// Takes what has come, waiting for some; false once all is there.
  bool read_some();
  /// Waits for the child; once, after read_some() has said false.
  ChildEnd finish();

 private:
  int descriptor_ = -1;
  pid_t process_ = -1;
  std::string text_;
};

/// Runs `work` in a child process and returns its text: SimGrid's clock cannot be set back, so that
/// a process can simulate once. An Error of the child is thrown again here with the same code and
/// text; a child that dies is an InternalError.
std::string in_child_process(const std::function<std::string()>& work);

/// Runs work(0) to work(count - 1), each in a child process of its own and up to `jobs` (>= 1) side
/// by side, and returns their ends in that order, whatever the order in which they came. `ended`,
/// where given, is called with the number of children that have ended, after each.
std::vector<ChildEnd> in_child_processes(std::size_t count, std::size_t jobs,
                                         const std::function<std::string(std::size_t)>& work,
                                         const std::function<void(std::size_t)>& ended = nullptr);

}  // namespace rehearse
