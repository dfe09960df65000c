#pragma once

#include <array>
#include <string>
#include <vector>

#include "explain/critical_path.hpp"
#include "explain/link_costs.hpp"

namespace rehearse::inline explanation {

/// Kinds of time on a path.
enum class PathKind : std::uint8_t {
  compute,
  straggler,  ///< what a rank computes longer than the median one, or sleeps
  jitter,     ///< compute above its mean (its median, where spreads were measured)
  slowed,     ///< compute beside communication, or on shared cores
  collective,
  transfer,  ///< and copies
  host,      ///< launches
  loading,   ///< of batches
  server,    ///< updates
  queue      ///< a server's updates for others, while somebody waits for his turn
};
inline constexpr std::size_t kPathKinds = 10;
std::string to_string(PathKind kind);
std::string to_string(WaitedFor reason);

/// A piece of a path that is all of one kind.
struct PathPiece {
  RankId rank;
  OpId op;
  std::uint32_t iteration = 0;
  PathKind kind = PathKind::compute;
  Seconds start, duration;
  WaitedFor waited_for = WaitedFor::start;  ///< of an operation's later pieces: lane
};
/// The segments, cut by kind: contiguous, with the same sum.
std::vector<PathPiece> pieces_of(const Schedule& schedule, const std::vector<PathSegment>& path);

/// The name of what an operation works on: "layer3.0" of "forward layer3.0", "bucket 2" of
/// "all_reduce bucket 2 (25 MiB)".
std::string unit_of(const Op& op);

struct NamedTime {
  std::string name;
  Seconds time;
};
struct LinkTime {
  std::string link, where;  ///< LinkCosts::Alone
  Seconds latency, bandwidth;
  Seconds contention;  ///< beyond what it takes alone
  Seconds time() const { return latency + bandwidth + contention; }
};
/// Where the time of a path is; every list by descending time, and each but the links' sums to it.
struct PathShares {
  std::array<Seconds, kPathKinds> by_kind{};
  std::vector<NamedTime> by_unit;
  std::vector<std::pair<RankId, Seconds>> by_rank;
  std::vector<LinkTime> by_link;  ///< of what travels
};
/// All times over `steps`.
PathShares shares_of(const Schedule& schedule, const std::vector<PathPiece>& pieces, double steps,
                     LinkCosts& links);

}  // namespace rehearse::inline explanation
