#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/child_ranks.hpp"

namespace rehearse::inline calibrate {

/// How long ranks may take, and what stops them.
struct RunLimits {
  /// After the first rank failed, for the others to say why; then they are killed. A rank that was
  /// killed may be seen to have ended long after its peers saw its connections close.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  /// For the whole run; zero: none.
  std::chrono::milliseconds total{0};
  /// For the processes that a launcher started to find each other.
  std::chrono::milliseconds meeting = std::chrono::minutes(5);
  /// Asked now and then: true once the ranks are to stop where their files are whole, and to
  /// return. Those that have not after `stopping` are killed.
  std::function<bool()> stop = {};
  std::chrono::milliseconds stopping = std::chrono::minutes(1);
};

/// Runs `work` in `nproc` processes of this node and returns what each returned, in the order of
/// ranks. Call it before any use of torch, OpenMP or CUDA: their threads do not survive a fork.
///
/// When a rank throws, dies or is killed, the others are killed after the grace time, and an Error
/// names the rank and what ended it: the rank's own code and text where it threw, otherwise its
/// signal. No rank outlives this process.
std::vector<std::string> collect_from_ranks(int nproc, const RankWork& work,
                                            const RunLimits& limits = {});

/// Says when to give up on ranks that run; asked again and again while they do.
class RunWatch {
 public:
  explicit RunWatch(const RunLimits& limits) : limits_(limits) {}

  /// True while there is reason to wait. Asks the children to stop where that is wanted, and throws
  /// StuckError where they took too long.
  bool goes_on(ChildRanks& children, bool any_failed);

 private:
  using Clock = std::chrono::steady_clock;
  const RunLimits& limits_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point give_up_ = Clock::time_point::max();
  Clock::time_point stopped_ = Clock::time_point::max();
};

}  // namespace rehearse::inline calibrate
