#include "cli/step_processes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number.hpp"
#include "cli/progress.hpp"
#include "launch/run_team.hpp"

namespace rehearse {
namespace {

struct Slow {
  int rank = -1;
  Seconds delay;
};

Slow parse_slow(const std::string& text, int ranks) {
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  const double rank = decimal_number(text.substr(0, colon)).value_or(-1);
  const double delay =
      colon == std::string::npos ? -1 : decimal_number(text.substr(colon + 1)).value_or(-1);
  if (rank < 0 || rank >= ranks || rank != std::floor(rank) || delay < 0) {
    throw InputError(fmt::format(
        "error: --slow: expected RANK:MS with a rank below {}, such as 1:30; got \"{}\"", ranks,
        text));
  }
  return {static_cast<int>(rank), Seconds(delay / 1e3)};
}

std::optional<ServerMode> server_mode(const std::string& strategy) {
  if (strategy == "ps-sync") return ServerMode::synchronous;
  if (strategy == "ps-ssp") return ServerMode::bounded;
  if (strategy == "ps-async") return ServerMode::asynchronous;
  return std::nullopt;
}

ParameterServerOptions server_options(const StepCommand& command, ServerMode mode, int workers) {
  return {{workers,
           mode,
           command.staleness,
           command.backup_workers,
           {command.run.learning_rate, command.run.momentum}},
          Seconds(command.timeout),
          Seconds(command.timeout)};
}

/// "10.0.0.1:4001,10.0.0.1:4002", and back.
std::string to_text(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> texts;
  for (const Endpoint& endpoint : endpoints) texts.push_back(to_string(endpoint));
  return fmt::format("{}", fmt::join(texts, ","));
}

std::vector<Endpoint> endpoints_in(const std::string& text) {
  std::vector<Endpoint> endpoints;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const std::size_t colon = one.rfind(':');
    endpoints.push_back(
        {one.substr(0, colon), static_cast<std::uint16_t>(std::stoi(one.substr(colon + 1)))});
    begin = end + 1;
  }
  return endpoints;
}

}  // namespace

Ranks ranks_of(const StepCommand& command) {
  const auto self = rank_environment_of_launcher();
  if (!self) return {{}, command.nproc, 1};
  return {self, self->world_size, std::max(1, self->world_size / self->local_world_size)};
}

StepProcesses::StepProcesses(const StepCommand& command, const Ranks& placed)
    : command_(command), placed_(placed), mode_(server_mode(command.run.strategy)) {
  const Slow slow = parse_slow(command.slow, placed.count);
  slow_rank_ = slow.rank;
  delay_ = slow.delay;
  if (!mode_) return;
  // What does not fit together is said before any process starts.
  UpdateRule(server_options(command, *mode_, placed.count).rule);
  if (command.backup_workers > 0 && command.servers > 1) {
    throw InputError("error: --backup: several servers may each wait for another worker; use one");
  }
  if (command.run.optimizer != "sgd") {
    throw InputError("error: --optimizer: a parameter server's optimizer is sgd");
  }
}

bool StepProcesses::run() {
  const TeamWork team{
      .announce = [this](const std::string& address) { return listen(address); },
      .helpers = mode_ ? command_.servers : 0,
      .work = [this](const RankEnvironment& self,
                     const std::string& announced) { return work_of(self, announced); }};
  const RunLimits limits{.meeting = command_.run.timeout};
  const auto texts = placed_.self ? collect_from_team(*placed_.self, team, limits)
                                  : collect_from_team(placed_.count, team, limits);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool trains = i < static_cast<std::size_t>(placed_.count);
    if (trains) ranks.push_back(rank_steps_from_json(texts[i]));
    if (!trains) servers.push_back(server_result_from_json(texts[i]));
  }
  return !texts.empty();
}

/// Here and not in the servers' processes: the ports are free, and known to all, before any
/// starts.
std::string StepProcesses::listen(const std::string& address) {
  std::vector<Endpoint> endpoints;
  const std::string host = address.empty() ? "127.0.0.1" : address;
  for (int s = 0; mode_ && s < command_.servers; ++s) {
    listening_.push_back(listen_on({host, 0}));
    endpoints.push_back({host, port_of(listening_.back())});
  }
  return to_text(endpoints);
}

std::string StepProcesses::work_of(const RankEnvironment& self, const std::string& announced) {
  std::vector<Socket> inherited = std::move(listening_);
  if (self.rank >= placed_.count) {
    Socket own = std::move(inherited[static_cast<std::size_t>(self.rank - placed_.count)]);
    inherited.clear();
    return to_json(
        serve_parameters(std::move(own), server_options(command_, *mode_, placed_.count)));
  }
  // A dead server's socket must refuse, not lie open in its clients.
  inherited.clear();
  StepRunOptions options = command_.run;
  options.servers = endpoints_in(announced);
  if (self.rank == slow_rank_) options.delay = delay_;
  Progress progress(command_.quiet || self.rank != 0);
  const int all = options.warmup + options.steps;
  options.progress = [&](int done) {
    progress.update(static_cast<double>(done) / all, fmt::format("step {} of {}", done, all));
  };
  return to_json(run_steps(self, options));
}

}  // namespace rehearse
