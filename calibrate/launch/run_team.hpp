#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/run_ranks.hpp"

namespace rehearse::inline calibrate {

/// Work that ranks do together, wherever they run.
struct TeamWork {
  /// Gives what all processes are told. It is asked once, on rank 0's node before any rank works,
  /// with that node's address as the others reach it.
  std::function<std::string(const std::string& own_address)> announce = {};
  /// Processes beside the ranks, on rank 0's node; their ranks follow the others'.
  int helpers = 0;
  std::function<std::string(const RankEnvironment& self, const std::string& announced)> work;
};

/// As collect_from_ranks() with the ranks of a launcher, of which this process is `self`; the
/// helpers' texts follow the ranks'. Each process forks its rank and watches over it; they meet at
/// the master's address and port, where rank 0 listens until the end. All texts on rank 0, none
/// elsewhere. Whatever ends a rank, or a process of the launcher, is an Error in all of them in
/// bounded time, and MissingError names the ranks that never came, or the place that cannot be
/// reached.
std::vector<std::string> collect_from_team(const RankEnvironment& self, const TeamWork& team,
                                           const RunLimits& limits = {});

/// The same with `nproc` ranks that are started here.
std::vector<std::string> collect_from_team(int nproc, const TeamWork& team,
                                           const RunLimits& limits = {});

}  // namespace rehearse::inline calibrate
