#include "base/child_process.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace rehearse {
namespace {

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t count = read(descriptor, block.data(), block.size());
    if (count == 0) return text;
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) {
      throw MissingError(fmt::format("error: cannot read from a child: {}", std::strerror(errno)));
    }
  }
}

/// Never returns: the child's text goes into the pipe, and the kind of its end into its exit code.
[[noreturn]] void run_child(int descriptor, const std::function<std::string()>& work) {
  auto code = ExitCode::success;
  std::string text;
  try {
    text = work();
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  } catch (const std::exception& error) {
    code = ExitCode::internal;
    text = fmt::format("internal error: {}", error.what());
  }
  write_all(descriptor, text);
  // Destructors and exit handlers belong to the parent.
  _exit(static_cast<int>(code));
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildProcess::ChildProcess(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    throw MissingError(fmt::format("error: no pipe for a child: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  id_ = fork();
  if (id_ < 0) {
    close(ends[0]);
    close(ends[1]);
    throw MissingError(fmt::format("error: no child process: {}", std::strerror(errno)));
  }
  if (id_ == 0) {
    close(ends[0]);
    run_child(ends[1], work);
  }
  close(ends[1]);
  output_ = ends[0];
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)), output_(std::exchange(other.output_, -1)) {}

ChildProcess::~ChildProcess() {
  if (id_ < 0) return;
  kill(id_, SIGKILL);
  close(output_);
  wait_for(id_);
}

std::string ChildProcess::result() {
  check(id_ >= 0, "a child's result is asked for once");
  const std::string text = read_all(output_);
  close(output_);
  const int status = wait_for(std::exchange(id_, -1));
  if (WIFSIGNALED(status)) {
    throw InternalError(fmt::format("internal error: a child process died of signal {} ({})",
                                    WTERMSIG(status), strsignal(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) == 0) return text;
  throw Error(static_cast<ExitCode>(WEXITSTATUS(status)), text);
}

std::string in_child_process(const std::function<std::string()>& work) {
  return ChildProcess(work).result();
}

}  // namespace rehearse
