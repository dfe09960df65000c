#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/socket.hpp"
#include "server/update_rule.hpp"

namespace rehearse::inline calibrate {

/// The parameters of one moment.
struct ServerSnapshot {
  std::uint64_t version = 0;
  Seconds applied;  ///< the last update, since all workers were there
  std::span<const std::byte> parameters;
};

struct ParameterServerOptions {
  UpdateRuleOptions rule;
  Seconds join_timeout{60};      ///< all workers must have said hello by then
  Seconds silence_timeout{300};  ///< no message from any worker for so long is a failure
  /// Function that is told the parameters before the first update, after each update number that is
  /// a multiple of `observe_every`, and at the end; it must not keep the server waiting.
  std::function<void(const ServerSnapshot&)> observe = {};
  std::uint64_t observe_every = 1;
};

/// Result of a server's run.
struct ServerResult {
  UpdateLog log;
  std::uint64_t dropped = 0;  ///< gradients that came after their round
  Bytes received, sent;
};

/// The run's updates, whichever servers hold the parameters: stalest_of() their logs.
UpdateLog updates_of(const std::vector<ServerResult>& servers);

/// Serves one part of the parameters over TCP, in one thread, until every worker is done. The
/// options' workers connect to `listening`; worker 0 brings the initial parameters, and nobody
/// reads before all are there. If a worker dies, stays away or is silent for too long, the others
/// are told and MissingError names it.
ServerResult serve_parameters(Socket listening, const ParameterServerOptions& options);

}  // namespace rehearse::inline calibrate
