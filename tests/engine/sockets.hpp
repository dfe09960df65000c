#pragma once

#include "engine/clusters.hpp"
#include "profile/comm_profile.hpp"

namespace rehearse {

inline constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
inline constexpr double kMs = 1e-3;

inline Cluster hosts(int nodes) {
  Cluster cluster = star_cluster(nodes);
  cluster.groups.front().node.nic_latency = Seconds(0);
  return cluster;
}

inline Transport transport_of(double wake, double per_message) {
  return {.segments = 2,
          .largest_segment = Bytes(1e6),
          .at_a_time = 1,
          .efficiency = 0.9,
          .wake = Seconds(wake),
          .per_message = Seconds(per_message),
          .host_rate = BytesPerSecond(4e9),
          .slice = Seconds(0),
          .measured_at = BytesPerSecond(kNic)};
}

inline CommProfile profile_of(const Transport& transport) {
  return {.name = "test",
          .hardware = "made up",
          .source = "here",
          .curves = {},
          .transport = transport};
}

}  // namespace rehearse
