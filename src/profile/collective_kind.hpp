#pragma once

#include <array>
#include <stdexcept>
#include <string>

namespace rehearse {

/// Collectives, with sizes as nccl-tests counts them: all_reduce and broadcast the buffer of one
/// rank; all_gather the gathered output; reduce_scatter the whole input of one rank; send_recv the
/// message.
enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast, send_recv };

inline constexpr std::array kCollectiveKinds = {
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
  }
  return "?";
}

/// The collective with this name. Throws std::invalid_argument where there is none.
inline CollectiveKind parse_collective_kind(const std::string& name) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (to_string(kind) == name) return kind;
  }
  throw std::invalid_argument("\"" + name + "\" is no collective");
}

/// busbw / algbw as nccl-tests defines it (doc/PERFORMANCE.md): the bytes that the busiest port
/// must carry, over the size. 2(n-1)/n for all_reduce, (n-1)/n for all_gather and reduce_scatter, 1
/// for broadcast and send_recv.
inline double bus_factor(CollectiveKind kind, double ranks) {
  if (kind == CollectiveKind::all_reduce) return 2 * (ranks - 1) / ranks;
  if (kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter)
    return (ranks - 1) / ranks;
  return 1;
}

}  // namespace rehearse
