#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/number.hpp"
#include "cli/commands.hpp"
#include "launch/run_ranks.hpp"
#include "profile/whole_file.hpp"
#include "train/step_run.hpp"

namespace rehearse {
namespace {

struct StepCommand {
  StepRunOptions run;
  int nproc = 2;
  int servers = 1;
  std::uint64_t staleness = 1;
  int backup_workers = 0;
  double learning_rate = 1e-4, momentum = 0;
  std::string slow;  ///< RANK:MS
  std::filesystem::path output;
};

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

ParameterServerOptions server_options(const StepCommand& command, ServerMode mode) {
  const double patience = std::chrono::duration<double>(command.run.timeout).count();
  return {{command.nproc,
           mode,
           command.staleness,
           command.backup_workers,
           {command.learning_rate, command.momentum}},
          Seconds(patience),
          Seconds(patience)};
}

/// Trainers, and the servers behind them; every one a process of this node.
class StepProcesses {
 public:
  explicit StepProcesses(const StepCommand& command)
      : command_(command),
        run_(command.run),
        mode_(server_mode(command.run.strategy)),
        slow_(parse_slow(command.slow, command.nproc)) {
    UpdateRule(server_options(command, mode_.value_or(ServerMode::synchronous)).rule);
    if (command.backup_workers > 0 && command.servers > 1) {
      throw InputError(
          "error: --backup: several servers may each wait for another worker; use one");
    }
    for (int s = 0; mode_ && s < command.servers; ++s) {
      // Here and not in the server's process: the port is free, and known to all, before any
      // starts.
      listening_.push_back(listen_on({"127.0.0.1", 0}));
      run_.servers.push_back({"127.0.0.1", port_of(listening_.back())});
    }
  }

  void run() {
    const int processes = command_.nproc + static_cast<int>(listening_.size());
    const auto texts =
        collect_from_ranks(processes, [&](const RankEnvironment& self) { return work_of(self); });
    for (int i = 0; i < processes; ++i) {
      const std::string& text = texts[static_cast<std::size_t>(i)];
      if (i < command_.nproc) ranks.push_back(rank_steps_from_json(text));
      if (i >= command_.nproc) servers.push_back(server_result_from_json(text));
    }
  }

  std::vector<RankSteps> ranks;
  std::vector<ServerResult> servers;

 private:
  std::string work_of(const RankEnvironment& process) {
    std::vector<Socket> inherited = std::move(listening_);
    if (process.rank >= command_.nproc) {
      Socket own = std::move(inherited[static_cast<std::size_t>(process.rank - command_.nproc)]);
      inherited.clear();
      return to_json(serve_parameters(std::move(own), server_options(command_, *mode_)));
    }
    // A dead server's socket must refuse, not lie open in its clients.
    inherited.clear();
    RankEnvironment self = process;
    self.world_size = self.local_world_size = command_.nproc;
    StepRunOptions options = run_;
    if (self.rank == slow_.rank) options.delay = slow_.delay;
    return to_json(run_steps(self, options));
  }

  const StepCommand& command_;
  StepRunOptions run_;
  std::optional<ServerMode> mode_;
  Slow slow_;
  std::vector<Socket> listening_;
};

void print_summary(const StepProcesses& processes, const std::filesystem::path& file) {
  for (const RankSteps& rank : processes.ranks) {
    fmt::print("rank {}: {} measured steps, {} sent and {} received per step, peak {}\n", rank.rank,
               rank.steps.size(), format(rank.sent), format(rank.received),
               format(rank.allocated_peak));
  }
  std::vector<UpdateLog> logs;
  for (const ServerResult& server : processes.servers) logs.push_back(server.log);
  if (!logs.empty()) {
    const StalenessSummary staleness = summarize_staleness(while_all_train(stalest_of(logs)));
    fmt::print("staleness while all trained: mean {:.2f}, most {}\n", staleness.mean,
               staleness.max);
  }
  fmt::print("report: {}\n", file.string());
}

void run_step(const StepCommand& command, const Invocation& invocation) {
  StepProcesses processes(command);
  processes.run();
  const StepRequest request{
      command.run.strategy,    command.run.model,
      invocation.command_line, fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))),
      command.nproc,           command.run.batch,
      command.run.steps,       command.run.warmup};
  if (!processes.servers.empty()) {
    std::vector<UpdateLog> logs;
    for (const ServerResult& server : processes.servers) logs.push_back(server.log);
    std::filesystem::path table = command.output;
    write_whole_file(table.replace_extension(".updates.csv"), to_csv(stalest_of(logs)));
  }
  write_whole_file(command.output, step_report(request, processes.ranks, processes.servers));
  print_summary(processes, command.output);
}

void add_server_options(CLI::App& step, StepCommand& command) {
  step.add_option("--staleness", command.staleness,
                  "ps-ssp: iterations ahead of the slowest worker")
      ->check(CLI::Range(0, 1000000))
      ->type_name("S");
  step.add_option("--servers", command.servers, "Servers that hold a part of the parameters each")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  step.add_option("--backup", command.backup_workers, "ps-sync: workers that no round waits for")
      ->check(CLI::Range(0, 1023))
      ->type_name("N");
  step.add_option("--learning-rate", command.learning_rate, "Of the servers' SGD")
      ->type_name("RATE");
  step.add_option("--momentum", command.momentum, "Likewise")->type_name("M");
}

}  // namespace

void add_step_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<StepCommand>();
  CLI::App* step = app.add_subcommand("step", "Time real training steps across processes");
  step->add_option("--nproc", command->nproc, "Processes that train, on this node")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  step->add_option("--strategy", command->run.strategy, "ddp, fsdp, ps-sync, ps-ssp or ps-async")
      ->required()
      ->check(CLI::IsMember({"ddp", "fsdp", "ps-sync", "ps-ssp", "ps-async"}))
      ->type_name("NAME");
  step->add_option("--model", command->run.model, "One of `list models`")
      ->required()
      ->type_name("NAME");
  step->add_option("--image", command->run.image, "Pixels per side, where not the model's own")
      ->type_name("N");
  step->add_option("--batch", command->run.batch, "Samples of each rank")
      ->check(CLI::Range(1, 1000000))
      ->type_name("B");
  step->add_option("--steps", command->run.steps, "Measured steps")
      ->check(CLI::Range(1, 1000000))
      ->type_name("K");
  step->add_option("--warmup", command->run.warmup, "Steps before them")
      ->check(CLI::Range(0, 1000))
      ->type_name("K");
  step->add_option("--slow", command->slow, "A rank whose steps take longer: 1:30")
      ->type_name("RANK:MS");
  step->add_option("--output", command->output, "The report (JSON)")->required()->type_name("FILE");
  add_server_options(*step, *command);
  step->callback([command, &invocation] { run_step(*command, invocation); });
}

}  // namespace rehearse
