#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace rehearse {

/// A child process that does some work beside this one: SimGrid's clock cannot be set back, so that
/// a process can simulate once.
class ChildProcess {
 public:
  /// Starts it. MissingError where there is no process or pipe to be had.
  explicit ChildProcess(const std::function<std::string()>& work);
  /// Ends it if nobody has asked for its result.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// Waits for the work's text; once. An Error of the child is thrown again here with the same code
  /// and text; a child that dies is an InternalError.
  std::string result();

 private:
  pid_t id_ = -1;
  int output_ = -1;
};

/// Runs `work` in a child process and returns its text, as ChildProcess does.
std::string in_child_process(const std::function<std::string()>& work);

}  // namespace rehearse
