#include "serve/program_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"

namespace rehearse::inline serve {
namespace {

using Clock = std::chrono::steady_clock;

/// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read, write;
};

Pipe new_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw MissingError(std::string("a pipe cannot be had: ") + std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void limit(int resource, std::size_t most) {
  const rlimit both{most, most};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

/// In the child of a process that may have other threads: nothing but system calls.
[[noreturn]] void become(char* const* words, const Pipe& in, const Pipe& out, const Pipe& errors,
                         const ProgramLimits& limits) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(in.read.number(), STDIN_FILENO);
  dup2(out.write.number(), STDOUT_FILENO);
  dup2(errors.write.number(), STDERR_FILENO);
  limit(RLIMIT_AS, limits.memory);
  limit(RLIMIT_CORE, 0);
  execv("/proc/self/exe", words);
  _exit(4);
}

/// Takes what has come; closes the descriptor at its end, or beyond `most` bytes.
void take(Descriptor& from, std::string& text, std::size_t most) {
  std::array<char, 65536> bytes{};
  const ssize_t got = read(from.number(), bytes.data(), bytes.size());
  if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) || text.size() > most)
    from.close();
}

void give(Descriptor& to, const std::string& text, std::size_t& given) {
  const ssize_t put = write(to.number(), text.data() + given, text.size() - given);
  if (put > 0) given += static_cast<std::size_t>(put);
  if (given == text.size() || (put < 0 && errno != EINTR && errno != EAGAIN)) to.close();
}

/// How often a run looks whether it is to stop.
constexpr std::chrono::milliseconds kGlance{100};

/// Until all is read, the time is over, or it is stopped. False: not all was read.
bool exchange(Descriptor& in, const std::string& input, Descriptor& out, Descriptor& errors,
              ProgramRun& run, const ProgramLimits& limits) {
  const Clock::time_point end = Clock::now() + limits.time;
  std::size_t given = 0;
  fcntl(in.number(), F_SETFL, O_NONBLOCK);
  if (input.empty()) in.close();
  while (out.is_open() || errors.is_open()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0 || (limits.stop != nullptr && *limits.stop)) return false;
    std::array<pollfd, 3> waits{pollfd{in.number(), POLLOUT, 0}, pollfd{out.number(), POLLIN, 0},
                                pollfd{errors.number(), POLLIN, 0}};
    if (poll(waits.data(), waits.size(), static_cast<int>(std::min(left, kGlance).count())) <= 0)
      continue;
    if (in.is_open() && waits[0].revents != 0) give(in, input, given);
    if (out.is_open() && waits[1].revents != 0) take(out, run.output, limits.output);
    if (errors.is_open() && waits[2].revents != 0) {
      take(errors, run.errors, limits.output);
      if (limits.on_errors) limits.on_errors(run.errors);
    }
  }
  return true;
}

}  // namespace

ProgramRun run_program_with(const std::vector<std::string>& words, const std::string& input,
                            const ProgramLimits& limits) {
  std::vector<std::string> all = {"rehearse"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipe in = new_pipe(), out = new_pipe(), errors = new_pipe();
  const pid_t child = fork();
  if (child < 0) throw MissingError(std::string("no process to be had: ") + std::strerror(errno));
  if (child == 0) become(arguments.data(), in, out, errors, limits);
  setpgid(child, child);
  in.read.close();
  out.write.close();
  errors.write.close();
  ProgramRun run;
  run.timed_out = !exchange(in.write, input, out.read, errors.read, run, limits);
  if (run.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

}  // namespace rehearse::inline serve
