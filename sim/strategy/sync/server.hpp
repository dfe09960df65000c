#pragma once

#include "strategy/server/server_parts.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

/// One server: where it runs, where gradients wait for it, and how fast it is.
struct Server {
  RankId rank;
  QueueId queue;
  BytesPerSecond apply_rate{};  ///< of gradients
  /// Of parameters at the end of a synchronous round; nothing: that takes no time.
  std::optional<BytesPerSecond> update_rate{};
  /// Of messages, each way, through its CPU; nothing: they take none of its time.
  std::optional<BytesPerSecond> message_rate{};
  /// The share of a message that leaves its node; the rest is for a worker beside it.
  double crosses = 1;

  Seconds update_time(Bytes size) const { return update_rate ? size / *update_rate : Seconds(0); }
};

/// How workers and servers keep step; events are per part, or one clock for all.
struct Clock {
  bool synchronous = false;
  std::vector<EventId> gathered;  ///< synchronous: enough gradients of a part are in
  std::vector<EventId> updated;   ///< synchronous: the part is updated
  /// Bounded stale: every worker's gradients of an iteration are applied.
  std::optional<EventId> applied;
  std::vector<EventId> warmed;  ///< warm-up rounds: every worker's gradients of a part are applied
};

/// What the parts are, which server has which, and how all keep step.
struct ServerSide {
  std::vector<Part> parts;
  std::vector<Server> servers;
  Clock clock;
};

/// What a GPU does beside its training.
struct WorkerPart {
  bool exchanges = true;  ///< it pulls and pushes itself
  bool shares = false;    ///< it sums gradients with the other GPUs of its node, its group 0
  /// What it reads and sends are a worker's updates; of the ranks of a replica one's are.
  bool counts = true;
  /// Of messages by priority: the first of its own queues. They are by server: pulls, then pushes.
  std::optional<QueueId> queues = std::nullopt;
};

/// The program of a parameter server's workers in one node group.
Program server_worker(const ParameterServer& options, const RankJob& rank, const ServerSide& side,
                      const WorkerPart& part);

}  // namespace rehearse::inline strategy
