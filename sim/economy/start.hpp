#pragma once

#include "base/ends.hpp"
#include "economy/options.hpp"

namespace rehearse::inline economy {

/// Cost, in expectation, of a start that has to wait for its nodes.
struct StartForecast {
  Seconds first_step{};  ///< when the first can begin
  Seconds all_there{};
  Ends<Seconds> all_there_spread;  ///< 5th to 95th percentile
  Seconds mean_arrival{};          ///< of one node
  /// How much later the training ends than if all nodes had been there at once. Elastic: a share of
  /// the nodes does that share of the work, so it is the mean arrival.
  Seconds delay{};
  /// Work that was done before all nodes were there, as time of training with all of them.
  Seconds done_meanwhile{};
  /// How long a node that is there waits for the others, on average.
  Seconds mean_wait{};
};

/// Forecast for `nodes` nodes that arrive independently. Exponential: the last of N comes at H_N /
/// rate, the first at 1 / (N rate); uniform in [0, U]: at U N/(N+1) and U/(N+1).
StartForecast forecast_start(const StartOptions& options, int nodes);

}  // namespace rehearse::inline economy
