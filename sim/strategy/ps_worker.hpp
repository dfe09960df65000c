#pragma once

#include "strategy/server_parts.hpp"

namespace rehearse {

/// One server: where it runs, and where gradients wait for it.
struct Server {
  RankId rank;
  QueueId queue;
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

/// The program of a parameter server's workers in one node group.
Program ps_worker_program(const ParameterServer& options, const Job& job, const NodeGroup& group,
                          const StepCosts& costs, const ServerSide& side);

}  // namespace rehearse
