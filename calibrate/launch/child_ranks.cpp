#include "launch/child_ranks.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "server/peer_error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Ends the text of a rank whose work came to its end: a rank may also call exit(0) in the middle.
constexpr char kComplete = '\x04';
constexpr char kFollows = '\x05';  ///< likewise, with a PeerError

/// Never returns: the rank's text goes into the pipe, and the kind of its end into its exit code.
[[noreturn]] void be_rank(const RankEnvironment& environment, int pipe_end, const RankWork& work) {
  char last = kComplete;
  const ChildEnd end = end_of_work([&] {
    try {
      return work(environment);
    } catch (const PeerError&) {
      last = kFollows;
      throw;
    }
  });
  write_all(pipe_end, end.text + last);
  std::fflush(nullptr);
  // Destructors and exit handlers belong to the parent.
  _exit(static_cast<int>(end.code));
}

}  // namespace

void ChildRanks::start(const RankEnvironment& environment, const RankWork& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    throw MissingError(fmt::format("error: no pipe for a rank: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) {
    const int reason = errno;
    close(ends[0]);
    close(ends[1]);
    throw MissingError(fmt::format("error: no process for a rank: {}", std::strerror(reason)));
  }
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(static_cast<int>(ExitCode::internal));
    close(ends[0]);
    for (const Child& other : children_) close(other.result);
    be_rank(environment, ends[1], work);
  }
  close(ends[1]);
  Child child;
  child.process = process;
  child.result = ends[0];
  children_.push_back(std::move(child));
}

void ChildRanks::wait(std::chrono::milliseconds limit) {
  std::vector<pollfd> ends;
  std::vector<Child*> owners;
  for (Child& child : children_) {
    if (!child.running()) continue;
    ends.push_back({.fd = child.result, .events = POLLIN, .revents = 0});
    owners.push_back(&child);
  }
  if (poll(ends.data(), ends.size(), static_cast<int>(limit.count())) <= 0) return;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].revents != 0) receive(*owners[i]);
  }
}

/// Takes what a child's pipe holds; its end is the child's end.
void ChildRanks::receive(Child& child) {
  std::array<char, 65536> block{};
  const ssize_t count = read(child.result, block.data(), block.size());
  if (count > 0) child.end.text.append(block.data(), static_cast<std::size_t>(count));
  if (count == 0) reap(child);
  if (count < 0 && errno != EINTR) {
    kill(child.process, SIGKILL);
    reap(child);
  }
}

void ChildRanks::reap(Child& child) {
  close(child.result);
  child.result = -1;
  RankEnd& end = child.end;
  end.ended = true;
  end.when = std::chrono::steady_clock::now();
  end.follows = !end.text.empty() && end.text.back() == kFollows;
  end.complete = end.follows || (!end.text.empty() && end.text.back() == kComplete);
  if (end.complete) end.text.pop_back();
  while (waitpid(child.process, &end.status, 0) < 0 && errno == EINTR) {
  }
}

void ChildRanks::ask_to_stop() {
  for (const Child& child : children_) {
    if (child.running()) kill(child.process, SIGUSR1);
  }
}

void ChildRanks::kill_running() {
  for (const Child& child : children_) {
    if (child.running()) kill(child.process, SIGKILL);
  }
  for (Child& child : children_) {
    if (child.running()) reap(child);
  }
}

bool ChildRanks::any_running() const { return std::ranges::any_of(children_, &Child::running); }

bool ChildRanks::any_failed() const {
  return std::ranges::any_of(children_, [](const Child& child) { return child.end.failed(); });
}

std::vector<RankEnd> ChildRanks::ends() const {
  std::vector<RankEnd> all;
  for (const Child& child : children_) all.push_back(child.end);
  return all;
}

}  // namespace rehearse::inline calibrate
