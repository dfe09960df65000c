#pragma once

#include <set>
#include <string>
#include <vector>

#include "explain/changes.hpp"

namespace rehearse::inline explanation {

/// Resources that more money or care could buy more of. Together they are all that takes time. A
/// step with all of them `factor` times as fast takes exactly 1 / factor as long.
enum class Resource {
  gpu,         ///< computation on GPUs, as a whole
  nvlink,      ///< rates; with those of calibrated collectives inside a node
  pcie,        ///< likewise where there is no NVLink; host memory; copies to and from GPUs, whole
  nic,         ///< rates; with those of calibrated collectives between nodes
  fabric,      ///< cables between switches
  latency,     ///< of all links, and of calibrated collectives
  server,      ///< the rate at which a parameter server applies gradients
  host,        ///< launches
  loading,     ///< of batches
  sockets,     ///< what hosts do for messages over sockets
  straggling,  ///< what ranks sleep
  jitter       ///< the spread of compute times (it scales no time: not one of the above)
};
std::string to_string(Resource resource);
/// "NIC bandwidth".
std::string words_of(Resource resource);
/// True if more of it is a higher rate, false if it is a shorter time (or less of a spread).
bool is_rate(Resource resource);
/// Resources that the machine has and uses; `ports` are the kinds that something crosses.
std::vector<Resource> resources_of(const Machine& machine, const std::set<PortKind>& ports);
/// Makes it `factor` times as fast: rates times, times over `factor`.
void speed_up(Resource resource, double factor, Machine& machine);

}  // namespace rehearse::inline explanation
