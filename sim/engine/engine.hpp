#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collective/collective_cost.hpp"
#include "collective/plan.hpp"
#include "profile/comm_profile.hpp"
#include "schedule/other_jobs.hpp"
#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse {

struct EngineOptions {
  Fidelity fidelity = Fidelity::flow;
  /// Calibrated costs of collectives; where it has no curve the links alone decide. May be null.
  const CommProfile* comm = nullptr;
  /// Where in its interval each collective's cost is taken: 0 its middle, -1 and 1 its ends.
  double shift = 0;
  /// The cluster's links, each of them, take so many times what they are known for: what messages
  /// between two ranks are shifted by. Collectives are costed without it.
  double links_slowed = 1;
  /// Where to note what answered for each collective that is planned; may be null.
  std::vector<CollectiveAnswer>* answers = nullptr;
  /// What runs at the same time; the trace is of the schedule's ranks alone. May be null: nothing.
  const OtherJobs* others = nullptr;
  /// Spans are kept for as many ranks as stay below this many spans.
  std::size_t span_limit = 4'000'000;
  /// Ranks go on after the schedule's iterations, each at its own pace, until this says that the
  /// trace so far is enough. It is asked when every rank has ended the schedule's iterations, and
  /// again whenever two fifths more have ended. Empty: ranks end after the schedule's iterations.
  std::function<bool(const Trace& so_far)> enough{};
  /// Operations after which an open-ended run stops in any case; ranks that have not ended the
  /// schedule's iterations by then still do, and the others wait for them.
  std::uint64_t most_operations = 400'000;
  /// Called now and then with the share of iterations done (0 to 1); may be empty.
  void (*progress)(double share) = nullptr;
};

/// Simulates the schedule with SimGrid and returns what happened. The only code that knows SimGrid.
///
/// One call per process: SimGrid's clock does not go back. Throws StuckError naming what waits for
/// what if an operation never ends; MissingError never.
Trace run(const Schedule& schedule, const Cluster& cluster, const EngineOptions& options);

/// "3.32.0", and the network settings that every simulation uses, as the report prints them.
std::string simgrid_version();
std::vector<std::string> simgrid_settings();

}  // namespace rehearse
