#pragma once

#include <vector>

#include "profile/comm_profile.hpp"

namespace rehearse::inline profile {

/// A collective of one size between nodes with one rank each.
struct TransportPoint {
  Bytes size;    ///< of the whole buffer
  Seconds time;  ///< of the slowest rank
  Seconds host;  ///< processor time of one rank's process during it
};

/// Settings that the back end decides and no measurement tells.
struct TransportRules {
  int segments = 2;  ///< of a ring's chunk, at least
  Bytes largest_segment;
  int at_a_time = 1;  ///< collectives
  Seconds slice{0};   ///< of the hosts' scheduler
  Bytes queued = Transport{}.queued;
};

/// Gloo's: two segments per chunk or more, none above 1 MiB (gloo/allreduce.cc); two threads
/// (ProcessGroupGloo's default).
inline constexpr TransportRules kGlooRules{2, Bytes(1024.0 * 1024.0), 2};

/// Time of an all_reduce whose ranks have a core each, over links of `rate`. With g segments of a
/// chunk, of which each takes the link u, the host h, and w to wake up: 2(n-1)(w+h+u) +
/// (g-1) max(h, u) where w+h+u >= g max(h, u), else 2(n-1) g max(h, u) + w + min(h, u).
Seconds uncontended(const Transport& transport, Bytes size, int ranks, BytesPerSecond rate);

/// Transport that the points show. Points of kLargeMessage and more give its efficiency, and their
/// processor time gives the host's work (least squares of relative errors). What is left of the
/// time of the smallest gives the wake-up. The errors are what 90 % of the points of kLargeMessage
/// and more, and of the others, stay within of uncontended(). std::invalid_argument for less than 2
/// ranks, no point of 64 KiB or less or none of kLargeMessage or more.
Transport fit_transport(const std::vector<TransportPoint>& points, int ranks, BytesPerSecond rate,
                        const TransportRules& rules);

}  // namespace rehearse::inline profile
