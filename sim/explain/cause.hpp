#pragma once

#include <string>
#include <vector>

#include "explain/changes.hpp"

namespace rehearse::inline explanation {

/// Causes of time that an ideal run would not take.
enum class Cause {
  jitter,        ///< compute times vary from step to step
  unequal,       ///< ranks that are slower than the median one, and those that sleep
  host,          ///< the host's launches
  loading,       ///< of batches
  interference,  ///< what compute and communication beside each other cost
  shared_cores,  ///< ranks compute on the same cores
  server,        ///< a parameter server's updates
  overlap,       ///< communication that computation waits for in the same step
  network        ///< latencies and limited rates
};
std::string to_string(Cause cause);
/// The counterpart of a cause in an ideal run: "an infinite network".
std::string instead_of(Cause cause);
/// Causes that the machine has, in the order above.
std::vector<Cause> causes_of(const Machine& machine);
/// Takes the cause away:
/// - jitter: every factor is 1; unequal: every rank computes as long as the median one, none sleeps
/// - host, loading, server: they take no time; interference: none; shared_cores: a core for
/// everyone
/// - overlap: what waits for communication waits for that of the step before, so that all of it may
///   hide (a step then takes as long as the busier of the two)
/// - network: messages take no time; members of a collective still wait for each other
void remove(Cause cause, Machine& machine);

}  // namespace rehearse::inline explanation
