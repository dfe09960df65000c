#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/rank_environment.hpp"

namespace rehearse {

/// How long the ranks of one node may take.
struct RunLimits {
  /// After the first rank failed, for the others to say why; then they are killed.
  std::chrono::milliseconds grace{500};
  /// For the whole run; zero: none.
  std::chrono::milliseconds total{0};
};

/// Runs `work` in `nproc` processes of this node and returns what each returned, in the order of
/// ranks. Call it before any use of torch, OpenMP or CUDA: their threads do not survive a fork.
///
/// When a rank throws, dies or is killed, the others are killed after the grace time, and an Error
/// names the rank and what ended it: the rank's own code and text where it threw, otherwise its
/// signal. No rank outlives this process.
std::vector<std::string> collect_from_ranks(
    int nproc, const std::function<std::string(const RankEnvironment&)>& work,
    const RunLimits& limits = {});

/// The same for work that returns an exit code. A code that is not 0 is a failure of its rank, and
/// is returned once the others have ended; 0 where all succeed.
int run_ranks(int nproc, const std::function<int(const RankEnvironment&)>& work,
              const RunLimits& limits = {});

}  // namespace rehearse
