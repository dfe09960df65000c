#pragma once

#include <cstdint>
#include <vector>

namespace rehearse::bench {

/// One flow between two numbered ports.
struct RawFlow {
  std::uint32_t source, target;
  double bytes;
};

/// Plays batches of flows one after the other with nothing around them: what SimGrid itself needs for a step's traffic, and so
/// the limit of any simulator on it. Returns the simulated time, in seconds. Once per process.
double play_raw_flows(std::uint32_t ports, double bytes_per_second, const std::vector<std::vector<RawFlow>>& batches);

}  // namespace rehearse::bench
