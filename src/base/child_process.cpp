#include "base/child_process.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/printable.hpp"

namespace rehearse::inline base {
namespace {

/// Of a child: where its text goes. -1: this process is none.
int child_output = -1;

/// Where memory runs out, the kernel is to end a child and not the process that tells of it.
void offer_to_be_killed() {
  if (std::FILE* const file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("1000", file);
    std::fclose(file);
  }
}

/// Never returns: the child's text goes into the pipe, and the kind of its end into its exit code.
[[noreturn]] void run_child(int descriptor, pid_t parent,
                            const std::function<std::string()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::internal));  // it ended before that
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  offer_to_be_killed();
  child_output = descriptor;
  end_process(end_of_work(work));
}

/// Its status as waitpid gives it.
int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ChildEnd end_of_work(const std::function<std::string()>& work) {
  try {
    return {ExitCode::success, work()};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::missing, "error: out of memory"};
  } catch (const std::filesystem::filesystem_error& error) {  // a name that the system refuses
    return {ExitCode::missing,
            fmt::format("{}: error: {}", error.path1().string(), error.code().message())};
  } catch (const std::exception& error) {
    return {ExitCode::internal, fmt::format("internal error: {}", error.what())};
  }
}

void end_process(const ChildEnd& end) {
  if (child_output >= 0) {
    write_all(child_output, end.text);
  } else if (!end.text.empty()) {
    tell(end.text + "\n");
  }
  // Destructors and exit handlers belong to the parent.
  _exit(static_cast<int>(end.code));
}

void end_out_of_memory() {
  constexpr std::string_view kText = "error: out of memory\n";
  const bool child = child_output >= 0;
  const ssize_t told =
      write(child ? child_output : STDERR_FILENO, kText.data(), kText.size() - (child ? 1 : 0));
  std::ignore = told;  // there is nobody else to tell
  _exit(static_cast<int>(ExitCode::missing));
}

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

ChildProcess::ChildProcess(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    throw MissingError(fmt::format("error: no pipe for a child: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ < 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    throw MissingError(fmt::format("error: no child process: {}", std::strerror(why)));
  }
  if (id_ == 0) {
    close(ends[0]);
    run_child(ends[1], parent, work);
  }
  close(ends[1]);
  output_ = ends[0];
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      output_(std::exchange(other.output_, -1)),
      text_(std::move(other.text_)) {}

ChildProcess::~ChildProcess() {
  if (id_ < 0) return;
  kill(id_, SIGKILL);
  close(output_);
  wait_for(id_);
}

bool ChildProcess::read_some() {
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t count = read(output_, block.data(), block.size());
    if (count >= 0) {
      text_.append(block.data(), static_cast<std::size_t>(count));
      return count > 0;
    }
    if (errno != EINTR) {
      throw MissingError(fmt::format("error: cannot read from a child: {}", std::strerror(errno)));
    }
  }
}

ChildEnd ChildProcess::finish() {
  check(id_ >= 0, "a child's end is asked for once");
  close(output_);
  const int status = wait_for(std::exchange(id_, -1));
  if (WIFSIGNALED(status)) {
    return {ExitCode::internal,
            fmt::format("internal error: a child process died of signal {} ({})", WTERMSIG(status),
                        strsignal(WTERMSIG(status)))};
  }
  return {static_cast<ExitCode>(WEXITSTATUS(status)), std::move(text_)};
}

std::string ChildProcess::result() {
  while (read_some()) {
  }
  ChildEnd end = finish();
  if (end.code == ExitCode::success) return std::move(end.text);
  if (end.code == ExitCode::internal) throw InternalError(end.text);
  throw Error(end.code, end.text);
}

std::string in_child_process(const std::function<std::string()>& work) {
  return ChildProcess(work).result();
}

}  // namespace rehearse::inline base
