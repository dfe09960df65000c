#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace rehearse::inline profile {

/// Collectives, with sizes as nccl-tests counts them: all_reduce, broadcast and reduce the buffer
/// of one rank; all_gather the gathered output; reduce_scatter the whole input of one rank;
/// all_to_all what one rank has for all; send_recv the message.
enum class CollectiveKind {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  send_recv,
  reduce,
  all_to_all
};

inline constexpr std::array kCollectiveKinds = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::broadcast,  CollectiveKind::send_recv,  CollectiveKind::reduce,
    CollectiveKind::all_to_all};
/// Collectives that rehearse-calibrate measures.
inline constexpr std::array kCalibratedKinds = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::broadcast, CollectiveKind::send_recv};

inline std::string to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::send_recv:
      return "send_recv";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::all_to_all:
      return "all_to_all";
  }
  return "?";
}

/// Names of all collectives.
inline std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  names.reserve(kCollectiveKinds.size());
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(to_string(kind));
  return names;
}

/// The collective with this name. Throws std::invalid_argument where there is none.
inline CollectiveKind parse_collective_kind(const std::string& name) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (to_string(kind) == name) return kind;
  }
  throw std::invalid_argument("\"" + name + "\" is no collective");
}

/// busbw / algbw as nccl-tests defines it (doc/PERFORMANCE.md): the bytes that the busiest port
/// must carry, over the size. 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and
/// all_to_all, 1 for broadcast, reduce and send_recv.
inline double bus_factor(CollectiveKind kind, double ranks) {
  if (kind == CollectiveKind::all_reduce) return 2 * (ranks - 1) / ranks;
  if (kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
      kind == CollectiveKind::all_to_all)
    return (ranks - 1) / ranks;
  return 1;
}

}  // namespace rehearse::inline profile
