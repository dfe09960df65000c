#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline base {

/// How a child process ended: its text, or the code and the text of the Error that ended it. A
/// child that died of a signal ends with ExitCode::internal.
struct ChildEnd {
  ExitCode code = ExitCode::success;
  std::string text;
};

/// How `work` ends in this process, whatever it throws.
ChildEnd end_of_work(const std::function<std::string()>& work);
/// Ends this process at once: a child with its text in the pipe, any other with it on standard
/// error.
[[noreturn]] void end_process(const ChildEnd& end);
/// The same without a byte of memory: "error: out of memory" and ExitCode::missing.
[[noreturn]] void end_out_of_memory();
/// Writes a text into a pipe, as far as anybody reads it.
void write_all(int descriptor, const std::string& text);

/// A child process that does some work beside this one: SimGrid's clock cannot be set back, so that
/// a process can simulate once. Its text comes through a pipe. It never outlives the thread that
/// started it, however that ends. SIGINT and SIGTERM, which a terminal sends to all processes, are
/// its parent's to answer.
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

  // To wait for several of them, instead of result():
  pid_t id() const { return id_; }
  /// Readable once there is text, or its end.
  int descriptor() const { return output_; }
  /// Takes what has come, waiting for some; false once all is there.
  bool read_some();
  /// Waits for the end of the child; once, after read_some() has said false.
  ChildEnd finish();

 private:
  pid_t id_ = -1;
  int output_ = -1;
  std::string text_;
};

/// Runs `work` in a child process and returns its text, as ChildProcess does.
std::string in_child_process(const std::function<std::string()>& work);

}  // namespace rehearse::inline base
