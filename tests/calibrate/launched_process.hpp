#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.hpp"
#include "launch/run_team.hpp"

namespace rehearse {

/// Long before those that hang would end, which they never do, however busy the machine.
constexpr std::chrono::seconds kBound{100};
/// Ranks that hang say nothing of a failure, however long they are given for it.
const RunLimits kNoGrace{.grace = std::chrono::milliseconds(100)};

[[noreturn]] inline void hang() {
  for (;;) sleep(1000);
}

/// What is printed so far stays this process's.
inline pid_t fork_quietly() {
  std::fflush(nullptr);
  return fork();
}

/// One process of a launcher, started by hand; what it throws or prints goes into a file.
class Process {
 public:
  Process(int rank, int size, int port, const TeamWork& team, const RunLimits& limits = kNoGrace)
      : file_(std::filesystem::temp_directory_path() /
              fmt::format("rehearse-team-{}-{}-{}", getpid(), port, rank)),
        id_(fork_quietly()) {
    if (id_ != 0) return;
    RankEnvironment self;
    self.rank = self.local_rank = rank;
    self.world_size = self.local_world_size = size;
    self.master_port = port;
    std::string text;
    int code = 0;
    try {
      for (const std::string& one : collect_from_team(self, team, limits)) text += one + ";";
    } catch (const Error& error) {
      text = error.what();
      code = static_cast<int>(error.code());
    }
    std::ofstream(file_) << text;
    _exit(code);
  }
  ~Process() {
    if (!ended_) {
      kill(id_, SIGKILL);
      waitpid(id_, nullptr, 0);
    }
    std::filesystem::remove(file_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  int wait() {
    int status = 0;
    waitpid(id_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file_).rdbuf();
    return all.str();
  }

 private:
  std::filesystem::path file_;
  pid_t id_;
  bool ended_ = false;
};

/// Where ranks say that they have come so far.
class Marks {
 public:
  Marks() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse-marks-XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~Marks() { std::filesystem::remove_all(folder_); }
  void set(int rank) const { std::ofstream(folder_ / std::to_string(rank)) << getpid() << '\n'; }
  /// The process that set it.
  pid_t await(int rank) const {
    pid_t process = 0;
    while (process == 0) {
      usleep(20000);
      std::ifstream(folder_ / std::to_string(rank)) >> process;
    }
    return process;
  }

 private:
  std::filesystem::path folder_;
};

inline TeamWork hanging(const Marks& marks) {
  TeamWork team;
  team.work = [&marks](const RankEnvironment& self, const std::string&) -> std::string {
    marks.set(self.rank);
    hang();
  };
  return team;
}

/// Ended, whether or not somebody has asked for its end yet.
inline bool ended(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string id, name, state = "Z";
  file >> id >> name >> state;
  return state == "Z";
}

inline bool gone(pid_t process) {
  for (const auto begin = std::chrono::steady_clock::now();
       !ended(process) && std::chrono::steady_clock::now() - begin < kBound;) {
    usleep(20000);
  }
  return ended(process);
}

}  // namespace rehearse
