#include "cli/step_processes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "base/number.hpp"
#include "cli/progress.hpp"
#include "launch/run_team.hpp"
#include "server/snapshot_file.hpp"

namespace rehearse::inline calibrate {
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
  const UpdateRuleOptions rule{
      .workers = workers,
      .mode = mode,
      .staleness = command.staleness,
      .backup_workers = command.backup_workers,
      .warmup_rounds = command.mitigation.warmup_rounds,
      .sgd = server_part(command.training(), static_cast<std::uint32_t>(workers))};
  ParameterServerOptions options{rule, Seconds(command.timeout), Seconds(command.timeout)};
  if (command.curve.empty()) return options;
  const auto snapshots = std::make_shared<SnapshotWriter>(command.snapshots());
  options.observe = [snapshots](const ServerSnapshot& one) { snapshots->append(one); };
  options.observe_every = command.eval_every;
  return options;
}

/// "10.0.0.1:4001,10.0.0.1:4002", and back.
std::string to_text(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> texts;
  texts.reserve(endpoints.size());
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

/// Whether servers can have rank 0's node for themselves.
void check_dedicated_server(const StepCommand& command, const Ranks& ranks) {
  if (!server_mode(command.run.strategy)) {
    throw InputError(
        fmt::format("error: --dedicated-server: {} has no parameter server\n"
                    "remedy: leave it out, or choose ps-sync, ps-ssp or ps-async",
                    command.run.strategy));
  }
  if (ranks.self && ranks.nodes > 1 && ranks.self->local_world_size == 1) return;
  throw InputError(fmt::format(
      "error: --dedicated-server: expected a launcher's ranks on two nodes or more, one "
      "on each; got {} on {}\n"
      "remedy: start one process on each node, as torchrun --nproc-per-node 1 does, or "
      "leave it out: the servers then are processes beside rank 0",
      ranks.count == 1 ? "1 rank" : fmt::format("{} ranks", ranks.count),
      ranks.nodes == 1 ? "1 node" : fmt::format("{} nodes", ranks.nodes)));
}

}  // namespace

TrainingOptions StepCommand::training() const {
  return {.model = run.model,
          .batch = static_cast<std::uint64_t>(run.batch),
          .learning_rate = run.learning_rate,
          .momentum = run.momentum,
          .weight_decay = weight_decay,
          .mitigation = mitigation,
          .seed = run.seed};
}

std::filesystem::path StepCommand::snapshots() const {
  std::filesystem::path file = curve;
  return file += ".snapshots";
}

Ranks ranks_of(const StepCommand& command) {
  Ranks ranks{rank_environment_of_launcher(), command.nproc, 1, command.dedicated_server};
  if (ranks.self) {
    ranks.count = ranks.self->world_size;
    ranks.nodes = std::max(1, ranks.count / ranks.self->local_world_size);
  }
  if (ranks.dedicated_server) check_dedicated_server(command, ranks);
  return ranks;
}

StepProcesses::StepProcesses(const StepCommand& command, const Ranks& placed)
    : command_(command), placed_(placed), mode_(server_mode(command.run.strategy)) {
  const Slow slow = parse_slow(command.slow, placed.trainers());
  slow_rank_ = slow.rank;
  delay_ = slow.delay;
  if (!mode_) return;
  // What does not fit together is said before any process starts.
  UpdateRule(server_options(command, *mode_, placed.trainers()).rule);
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
    if (i == 0 && placed_.dedicated_server) continue;
    const bool trains = i < static_cast<std::size_t>(placed_.count);
    if (trains) ranks.push_back(rank_steps_from_json(texts[i]));
    if (!trains) servers.push_back(server_result_from_json(texts[i]));
  }
  return !texts.empty();
}

RunUpdates StepProcesses::updates() const {
  RunUpdates run{.workers = static_cast<std::uint32_t>(placed_.trainers()),
                 .warmup = static_cast<std::uint64_t>(command_.run.warmup),
                 .mitigation = {},
                 .updates = updates_of(servers)};
  if (mode_ == ServerMode::bounded) run.mitigation.staleness_bound = command_.staleness;
  run.mitigation.backup_workers = static_cast<std::uint32_t>(command_.backup_workers);
  run.mitigation.warmup_rounds = command_.mitigation.warmup_rounds;
  run.mitigation.local_steps = command_.mitigation.local_steps;
  run.mitigation.outer = command_.mitigation.outer;
  return run;
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
        serve_parameters(std::move(own), server_options(command_, *mode_, placed_.trainers())));
  }
  // A dead server's socket must refuse, not lie open in its clients.
  inherited.clear();
  if (!placed_.dedicated_server) return to_json(train(self, announced));
  if (self.rank == 0) return {};
  RankEnvironment trainer = self;
  --trainer.rank;
  --trainer.world_size;
  return to_json(train(trainer, announced));
}

RankSteps StepProcesses::train(const RankEnvironment& trainer, const std::string& announced) {
  StepRunOptions options = command_.run;
  options.servers = endpoints_in(announced);
  options.jitter = Seconds(command_.jitter_ms / 1e3);
  options.local = worker_part(command_.training());
  if (trainer.rank == slow_rank_) options.delay = delay_;
  Progress progress(command_.quiet || trainer.rank != 0);
  const int all = options.warmup + options.steps;
  options.progress = [&](int done) {
    progress.update(static_cast<double>(done) / all, fmt::format("step {} of {}", done, all));
  };
  return run_steps(trainer, options);
}

}  // namespace rehearse::inline calibrate
