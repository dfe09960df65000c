#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cluster/cluster.hpp"

namespace rehearse::inline cluster {

/// A cable of a fabric in one direction; parallel ones that are one to a flow are one.
struct Cable {
  std::array<std::uint32_t, 4> id;  ///< of its fabric's cables
  BytesPerSecond rate;
};

/// Cables that a flow passes between NICs of two unlike nodes, in order; none on a star.
std::vector<Cable> cables_between(const Cluster& cluster, const Port& source, const Port& target);

}  // namespace rehearse::inline cluster
