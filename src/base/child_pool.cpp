#include "base/child_pool.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

namespace rehearse::inline base {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a signal or a deadline may wait to be seen.
constexpr int kTickMilliseconds = 100;

struct Running {
  ChildProcess child;
  Clock::time_point start;
  bool readable = false;
};

/// Of this process.
void limit_memory(Bytes most) {
  const auto bytes = static_cast<rlim_t>(most.value());
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_DATA, &limit);
}

class Pool {
 public:
  Pool(const ChildLimits& limits, const std::function<std::string(std::size_t)>& work,
       const std::function<void(std::size_t, ChildEnd)>& ended)
      : limits_(limits), work_(work), ended_(ended) {}

  bool has_room() const { return running_.size() < limits_.jobs; }
  bool empty() const { return running_.empty(); }

  void start(std::size_t index) {
    ChildProcess child([this, index] {
      if (limits_.memory) limit_memory(*limits_.memory);
      return work_(index);
    });
    running_.emplace(index, Running{std::move(child), Clock::now()});
  }

  /// Takes what the children say; waits for some of it, not for long where there are limits.
  void listen() {
    std::vector<pollfd> waiting;
    for (const auto& [index, one] : running_) {
      waiting.push_back({one.child.descriptor(), POLLIN, 0});
    }
    const bool limited = limits_.timeout || limits_.stop;
    if (poll(waiting.data(), waiting.size(), limited ? kTickMilliseconds : -1) < 0) {
      if (errno == EINTR) return;
      throw MissingError(fmt::format("error: cannot wait for children: {}", std::strerror(errno)));
    }
    auto ready = waiting.begin();
    for (auto& [index, one] : running_) one.readable = (ready++)->revents != 0;
    for (auto next = running_.begin(); next != running_.end();) {
      const auto one = next++;
      if (one->second.readable && !one->second.child.read_some()) {
        end(one, one->second.child.finish());
      } else if (is_late(one->second)) {
        end(one, {ExitCode::missing,
                  fmt::format("error: no result within {}: killed", format(*limits_.timeout))});
      }
    }
  }

 private:
  using Place = std::map<std::size_t, Running>::iterator;

  bool is_late(const Running& one) const {
    const std::chrono::duration<double> age = Clock::now() - one.start;
    return limits_.timeout && age.count() > limits_.timeout->value();
  }

  /// A child that still runs is killed.
  void end(Place one, ChildEnd how) {
    // Not every malloc throws: mimalloc aborts.
    if (limits_.memory && how.code == ExitCode::internal) {
      how.text += fmt::format(" (with at most {} of memory)", format(*limits_.memory));
    }
    const std::size_t index = one->first;
    running_.erase(one);
    ended_(index, std::move(how));
  }

  const ChildLimits& limits_;
  const std::function<std::string(std::size_t)>& work_;
  const std::function<void(std::size_t, ChildEnd)>& ended_;
  std::map<std::size_t, Running> running_;
};

}  // namespace

std::size_t jobs_or_cores(int asked) {
  if (asked > 0) return static_cast<std::size_t>(asked);
  return std::max(1U, std::thread::hardware_concurrency());
}

bool run_children(std::size_t count, const ChildLimits& limits,
                  const std::function<std::string(std::size_t)>& work,
                  const std::function<void(std::size_t, ChildEnd)>& ended) {
  check(limits.jobs > 0, "at least one child process at a time");
  Pool pool(limits, work, ended);
  for (std::size_t next = 0; next < count || !pool.empty();) {
    if (limits.stop && limits.stop()) return false;
    while (next < count && pool.has_room()) pool.start(next++);
    pool.listen();
  }
  return true;
}

std::vector<ChildEnd> in_child_processes(std::size_t count, std::size_t jobs,
                                         const std::function<std::string(std::size_t)>& work,
                                         const std::function<void(std::size_t)>& ended) {
  std::vector<ChildEnd> ends(count);
  std::size_t done = 0;
  run_children(count, {.jobs = jobs}, work, [&](std::size_t index, ChildEnd end) {
    ends[index] = std::move(end);
    ++done;
    if (ended) ended(done);
  });
  return ends;
}

}  // namespace rehearse::inline base
