#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collective/collective_cost.hpp"
#include "engine/machine.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline engine {

/// How long a machine is played, and what is kept of it.
struct EngineOptions {
  /// Where to note what answered for each collective that is planned; may be null.
  std::vector<CollectiveAnswer>* answers = nullptr;
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
  std::function<void(double share)> progress{};
};

/// Plays the machine with SimGrid and returns what happened. The only code that knows SimGrid.
///
/// One call per process: SimGrid's clock does not go back. Throws StuckError naming what waits for
/// what if an operation never ends; MissingError never.
Trace run(const Machine& machine, const EngineOptions& options = {});

/// "3.32.0", and the network settings that every simulation uses, as the report prints them.
std::string simgrid_version();
std::vector<std::string> simgrid_settings();

}  // namespace rehearse::inline engine
