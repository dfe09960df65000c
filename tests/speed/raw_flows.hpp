#pragma once

#include <cstdint>
#include <vector>

namespace rehearse::speed {

/// One flow between two numbered ports.
struct RawFlow {
  std::uint32_t source, target;
  double bytes;
};

/// Plays batches of flows one after the other with nothing around them: what SimGrid itself needs
/// for a step's traffic, and so the limit of any simulator on it. Returns the simulated time, in
/// seconds. Once per process. `rates` are the ports', in bytes per second.
double play_raw_flows(const std::vector<double>& rates,
                      const std::vector<std::vector<RawFlow>>& batches);

}  // namespace rehearse::speed
