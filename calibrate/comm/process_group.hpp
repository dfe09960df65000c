#pragma once

#include <chrono>

#include "compat/torch_compat.hpp"
#include "launch/rank_environment.hpp"

namespace rehearse::inline calibrate {

/// Backend that carries the collectives: Gloo over TCP for CPUs, NCCL for GPUs.
enum class CommBackend { gloo, nccl };

struct GroupOptions {
  CommBackend backend = CommBackend::gloo;
  /// Timeout for the ranks to meet, and for each collective: a peer that never comes is an error
  /// after it.
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
};

/// The group of all ranks, connected when this returns. Throws MissingError where the ranks do not
/// meet in time, the port is in use, or the back end is not built in.
ProcessGroup make_process_group(const RankEnvironment& ranks, const GroupOptions& options = {});

/// Waits until every rank is here.
void barrier(const ProcessGroup& group);

/// Waits until every rank is done with the group, and closes it: who closes earlier takes away
/// connections that others still read from.
void leave(const ProcessGroup& group);

}  // namespace rehearse::inline calibrate
