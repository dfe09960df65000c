#pragma once

#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "collective/plan.hpp"
#include "profile/comm_profile.hpp"
#include "schedule/other_jobs.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline engine {

/// All that a simulation plays, as plain data: to be changed and played again.
struct Machine {
  Schedule schedule;  ///< whole, or the few ranks that stand for it
  Cluster cluster;
  /// Calibrated costs of collectives; where it has no curve the links alone decide. Nothing: the
  /// links alone.
  std::optional<CommProfile> comm{};
  Fidelity fidelity = Fidelity::flow;
  std::string fidelity_name{};  ///< "hop", "flow", "folded (16 of 4096 ranks simulated)"
  /// Other jobs that run at the same time; the trace is of the schedule's ranks alone.
  std::optional<OtherJobs> others{};
  /// Where in its interval each collective's cost is taken: 0 its middle, -1 and 1 its ends.
  double shift = 0;
  /// The cluster's links, each of them, take so many times what they are known for: what messages
  /// between two ranks are shifted by. Collectives are costed without it.
  double links_slowed = 1;
  /// Repeats of an iteration, such as micro-batches, are all played, though they are steady.
  bool play_all = false;
};

}  // namespace rehearse::inline engine
