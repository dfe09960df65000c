#pragma once

#include "convergence/update_file.hpp"
#include "schedule/schedule.hpp"
#include "strategy/strategy.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline prediction {

/// Every update of a simulated parameter-server run, with the workers whose gradients were in it:
/// in a synchronous round all of them, or the first that came where some are backups. Workers are
/// numbered in the order of the ranks that exchange with the servers: GPUs, or nodes.
RunUpdates server_updates(const Schedule& schedule, const Trace& trace,
                          const ParameterServer& options, std::uint64_t warmup);

/// The same of local SGD without a server: in every round all `workers` average how far they came,
/// or take an outer step with that.
RunUpdates averaging_updates(const Trace& trace, const LocalSgd& options, std::uint32_t workers,
                             std::uint64_t warmup);

}  // namespace rehearse::inline prediction
