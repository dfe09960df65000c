#pragma once

#include <vector>

#include "strategy/sync/server.hpp"

namespace rehearse::inline strategy {

/// What servers have of the parameters of `job`, whose model is that of `workers` GPUs or ranks.
/// Events go to `schedule`.
ServerSide server_side(const ParameterServer& options, const Job& job, std::size_t workers,
                       Schedule& schedule);
/// Servers' own queues behind the workers' programs, and those of workers' messages by priority.
void add_queues(const ParameterServer& options, const std::vector<Server>& servers,
                Schedule& schedule);
/// Servers as ranks behind all others, of all parts of the model.
void add_servers(const ParameterServer& options, const Job& job,
                 const std::vector<ServerSide>& sides, std::size_t workers, Schedule& schedule);

}  // namespace rehearse::inline strategy
