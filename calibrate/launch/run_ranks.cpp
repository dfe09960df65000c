#include "launch/run_ranks.hpp"

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
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.hpp"

namespace rehearse {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<std::string(const RankEnvironment&)>;

constexpr std::chrono::milliseconds kPollInterval{200};
/// Ends the text of a rank whose work came to its end: a rank may also call exit(0) in the middle.
constexpr char kComplete = '\x04';

/// A rank that ended with a code and no text: it has said itself what was wrong.
class SilentFailure : public Error {
  using Error::Error;
};

/// A folder for the file through which the ranks find each other; removed with all in it.
class MeetingFolder {
 public:
  MeetingFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse-ranks-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw MissingError(fmt::format("error: no temporary folder: {}", std::strerror(errno)));
    }
    path_ = name;
  }
  ~MeetingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  std::string store_file() const { return path_ / "store"; }

 private:
  std::filesystem::path path_;
};

struct Rank {
  pid_t process = -1;
  int result = -1;  ///< the reading end of its pipe; closed and -1 once it has ended
  std::string text;
  int status = 0;
  bool complete = false;  ///< its work returned or threw
  Clock::time_point ended;

  bool running() const { return result >= 0; }
  bool failed() const { return !running() && (status != 0 || !complete); }
};

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

/// Never returns: the rank's text goes into the pipe, and the kind of its end into its exit code.
[[noreturn]] void be_rank(const RankEnvironment& environment, int pipe_end, const Work& work) {
  auto code = ExitCode::success;
  std::string text;
  try {
    text = work(environment);
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  } catch (const std::exception& error) {
    code = ExitCode::internal;
    text = fmt::format("internal error: {}", error.what());
  }
  write_all(pipe_end, text + kComplete);
  std::fflush(nullptr);
  // Destructors and exit handlers belong to the parent.
  _exit(static_cast<int>(code));
}

Rank start(const RankEnvironment& environment, const std::vector<Rank>& before, const Work& work) {
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
    for (const Rank& other : before) close(other.result);
    be_rank(environment, ends[1], work);
  }
  close(ends[1]);
  Rank rank;
  rank.process = process;
  rank.result = ends[0];
  return rank;
}

void reap(Rank& rank) {
  close(rank.result);
  rank.result = -1;
  rank.ended = Clock::now();
  rank.complete = !rank.text.empty() && rank.text.back() == kComplete;
  if (rank.complete) rank.text.pop_back();
  while (waitpid(rank.process, &rank.status, 0) < 0 && errno == EINTR) {
  }
}

/// Takes what a rank's pipe holds; its end is the rank's end.
void receive(Rank& rank) {
  std::array<char, 65536> block{};
  const ssize_t count = read(rank.result, block.data(), block.size());
  if (count > 0) rank.text.append(block.data(), static_cast<std::size_t>(count));
  if (count == 0) reap(rank);
  if (count < 0 && errno != EINTR) {
    kill(rank.process, SIGKILL);
    reap(rank);
  }
}

/// The ranks of one run; those that still run when this object goes are killed.
class Ranks {
 public:
  ~Ranks() { kill_running(); }
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void add(Rank rank) { ranks_.push_back(std::move(rank)); }
  const std::vector<Rank>& all() const { return ranks_; }

  bool any_running() const { return std::ranges::any_of(ranks_, &Rank::running); }
  bool any_failed() const { return std::ranges::any_of(ranks_, &Rank::failed); }

  void wait_a_little() {
    std::vector<pollfd> ends;
    std::vector<Rank*> owners;
    for (Rank& rank : ranks_) {
      if (!rank.running()) continue;
      ends.push_back({.fd = rank.result, .events = POLLIN, .revents = 0});
      owners.push_back(&rank);
    }
    if (poll(ends.data(), ends.size(), static_cast<int>(kPollInterval.count())) <= 0) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].revents != 0) receive(*owners[i]);
    }
  }

  void kill_running() {
    for (Rank& rank : ranks_) {
      if (rank.running()) kill(rank.process, SIGKILL);
    }
    for (Rank& rank : ranks_) {
      if (rank.running()) reap(rank);
    }
  }

 private:
  std::vector<Rank> ranks_;
};

/// The failure that the others follow from. A rank's death comes to its peers as a lost connection,
/// which they may report first: so a signal comes before whatever was thrown, then the earliest.
std::size_t first_cause(const std::vector<Rank>& ranks) {
  std::optional<std::size_t> cause;
  const auto earlier = [](const Rank& a, const Rank& b) {
    const bool a_killed = WIFSIGNALED(a.status), b_killed = WIFSIGNALED(b.status);
    return a_killed != b_killed ? a_killed : a.ended < b.ended;
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].failed() && (!cause || earlier(ranks[i], ranks[*cause]))) cause = i;
  }
  check(cause.has_value(), "a failed run without a failed rank");
  return *cause;
}

[[noreturn]] void throw_failure(const std::vector<Rank>& ranks, std::size_t failed) {
  const int status = ranks[failed].status;
  const std::string who = fmt::format("rank {} of {}", failed, ranks.size());
  if (WIFSIGNALED(status)) {
    throw MissingError(fmt::format("error: {} was ended by signal {} ({}); the others were stopped",
                                   who, WTERMSIG(status), strsignal(WTERMSIG(status))));
  }
  const int code = WEXITSTATUS(status);
  if (!ranks[failed].complete) {
    throw MissingError(fmt::format(
        "error: {} left with code {} in the middle of its work; the others were stopped", who,
        code));
  }
  if (ranks[failed].text.empty()) {
    throw SilentFailure(
        static_cast<ExitCode>(code),
        fmt::format("error: {} ended with code {}; the others were stopped", who, code));
  }
  throw Error(static_cast<ExitCode>(code), fmt::format("{} (in {})", ranks[failed].text, who));
}

RankEnvironment environment_of(int rank, int nproc, const std::string& store_file) {
  RankEnvironment environment;
  environment.rank = environment.local_rank = rank;
  environment.world_size = environment.local_world_size = nproc;
  environment.store_file = store_file;
  return environment;
}

void watch(Ranks& ranks, const RunLimits& limits) {
  const auto begin = Clock::now();
  std::optional<Clock::time_point> give_up;
  while (ranks.any_running() && (!give_up || Clock::now() < *give_up)) {
    ranks.wait_a_little();
    if (!give_up && ranks.any_failed()) give_up = Clock::now() + limits.grace;
    if (limits.total.count() > 0 && Clock::now() - begin > limits.total && !give_up) {
      throw StuckError(fmt::format("error: the ranks did not end within {} s and were stopped",
                                   std::chrono::duration<double>(limits.total).count()));
    }
  }
}

}  // namespace

std::vector<std::string> collect_from_ranks(int nproc, const Work& work, const RunLimits& limits) {
  check(nproc >= 1, "a run without ranks");
  const MeetingFolder folder;
  Ranks ranks;
  for (int rank = 0; rank < nproc; ++rank) {
    ranks.add(start(environment_of(rank, nproc, folder.store_file()), ranks.all(), work));
  }
  watch(ranks, limits);
  if (ranks.any_failed()) {
    const std::size_t failed = first_cause(ranks.all());
    ranks.kill_running();
    throw_failure(ranks.all(), failed);
  }
  std::vector<std::string> texts;
  for (const Rank& rank : ranks.all()) texts.push_back(rank.text);
  return texts;
}

int run_ranks(int nproc, const std::function<int(const RankEnvironment&)>& work,
              const RunLimits& limits) {
  const auto as_text = [&work](const RankEnvironment& environment) {
    const int code = work(environment);
    if (code != 0) throw Error(static_cast<ExitCode>(code), "");
    return std::string();
  };
  try {
    collect_from_ranks(nproc, as_text, limits);
  } catch (const SilentFailure& failure) {
    return static_cast<int>(failure.code());
  }
  return 0;
}

}  // namespace rehearse
