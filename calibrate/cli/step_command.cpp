#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/step_processes.hpp"
#include "cli/strategy_options.hpp"
#include "cli/training_options.hpp"
#include "config/whole_file.hpp"
#include "launch/run_ranks.hpp"
#include "measure/precision.hpp"
#include "models/networks.hpp"
#include "replay/replay.hpp"
#include "replay/replica.hpp"

namespace rehearse::inline calibrate {
namespace {

/// "backward of conv1", "optimizer".
std::string place_words(const MemoryPart& part) {
  return part.unit.empty() ? part.phase : part.phase + " of " + part.unit;
}

void print_summary(const StepProcesses& processes, int warmup, const std::filesystem::path& file) {
  for (const RankSteps& rank : processes.ranks) {
    fmt::print("rank {}: {} measured steps, {} sent and {} received per step, peak {} in {}\n",
               rank.rank, rank.steps.size(), format(rank.sent), format(rank.received),
               format(allocated_peak(rank)), place_words(rank.memory.peak_part()));
  }
  if (!processes.servers.empty()) {
    const StalenessSummary staleness = summarize_staleness(
        measured_updates(updates_of(processes.servers), static_cast<std::uint64_t>(warmup)));
    fmt::print("staleness while all trained: mean {:.2f}, most {}\n", staleness.mean,
               staleness.max);
  }
  fmt::print("report: {}\n", file.string());
}

/// A few real steps say how long all would take.
void print_plan(StepCommand command, const Ranks& ranks) {
  const StepRunOptions asked = command.run;
  command.run.warmup = 1;
  command.run.steps = 3;
  command.quiet = true;
  command.curve.clear();
  StepProcesses processes(command, ranks);
  if (!processes.run()) return;
  Seconds slowest;
  for (const RankSteps& rank : processes.ranks) {
    for (const Seconds step : rank.steps) slowest = std::max(slowest, step);
  }
  fmt::print("{} of {} in {}, batch {}, on {} ranks of {} nodes, {} host threads each ({})\n",
             asked.strategy, asked.model, to_string(asked.precision), asked.batch, ranks.trainers(),
             ranks.nodes, processes.ranks.front().host_threads, processes.ranks.front().device);
  fmt::print("steps:     {} after {} to warm up\n", asked.steps, asked.warmup);
  fmt::print("estimated: {}, from the slowest of three steps\n",
             format(slowest * static_cast<double>(asked.steps + asked.warmup)));
}

void complete(StepCommand& command) {
  StepRunOptions& run = command.run;
  run.precision = parse_precision(command.precision);
  run.timeout = std::chrono::milliseconds(static_cast<long>(command.timeout * 1e3));
  try {
    check_batch(run.model, run.shape, run.batch, "--batch");
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: {}", error.what()));
  }
  if (command.output.empty() && !command.dry_run) {
    throw InputError("error: --output: the report's file is missing");
  }
}

/// Reads the data, and says what does not suit it before any process starts.
void complete_data(StepCommand& command, const Ranks& ranks) {
  StepRunOptions& run = command.run;
  if (!command.data.is_given()) {
    if (!command.curve.empty())
      throw InputError("error: --curve: random data teach nothing\nremedy: --data FOLDER");
    return;
  }
  if (!run.strategy.starts_with("ps-"))
    throw InputError("error: --data: only workers of a parameter server train on real data here");
  if (command.servers > 1 && !command.curve.empty())
    throw InputError("error: --curve: several servers have no version in common; use one");
  if (command.precision != "fp32")
    throw InputError("error: --data: real data train in fp32 here, as replays of them do");
  run.data = std::make_shared<Dataset>(read_dataset(command.data));
  run.shape = shape_for(*run.data);
  run.cpu = true;
  if (run.threads == 0) run.threads = 1;  // so that a replay of it computes the same
  const int updates = (run.warmup + run.steps) * (run.strategy == "ps-sync" ? 1 : ranks.trainers());
  if (command.eval_every == 0) command.eval_every = static_cast<std::uint64_t>((updates + 19) / 20);
  // In a process of its own: LibTorch's threads would not survive the fork of the ranks.
  collect_from_ranks(1, [&](const RankEnvironment&) {
    Replica({run.model, run.shape, run.seed});
    return std::string();
  });
}

/// Of rank 0's process, whose server writes it: the file of snapshots is not left behind.
struct SnapshotsEnd {
  std::filesystem::path file;  ///< empty: none
  ~SnapshotsEnd() {
    std::error_code ignored;
    if (!file.empty()) std::filesystem::remove(file, ignored);
  }
};

void write_curve(const StepCommand& command, const StepProcesses& processes) {
  std::vector<std::map<std::uint64_t, double>> losses;
  for (const RankSteps& rank : processes.ranks) losses.push_back(rank.losses);
  const Curve curve =
      curve_of_run(processes.updates(), losses, command.snapshots(), *command.run.data,
                   command.training(), std::max(1U, std::thread::hardware_concurrency()));
  write_whole_file(command.curve, to_json(curve));
  fmt::print("{} of {}: {}\n", curve.model, curve.dataset, command.run.data->split);
  fmt::print("test accuracy: {:.2f} %{}\ncurve: {}\n", 100 * curve.points.back().test_accuracy,
             curve.diverged ? ", diverged" : "", command.curve.string());
}

void run_step(StepCommand& command, const Invocation& invocation) {
  const Ranks ranks = ranks_of(command);
  complete_data(command, ranks);
  complete(command);
  if (command.dry_run) return print_plan(command, ranks);
  const bool leads = !ranks.self || ranks.self->rank == 0;
  if (leads) check_can_write(command.output);
  if (leads && !command.run.allocations.empty()) check_can_write(command.run.allocations);
  const bool curve_is_here = leads && !command.curve.empty();
  if (curve_is_here) check_can_write(command.curve);
  const SnapshotsEnd end{curve_is_here ? command.snapshots() : std::filesystem::path()};
  StepProcesses processes(command, ranks);
  if (!processes.run()) return;
  const StepRunOptions& run = command.run;
  const StepRequest request{.strategy = run.strategy,
                            .model = run.model,
                            .command = invocation.command_line,
                            .date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))),
                            .precision = command.precision,
                            .optimizer = run.optimizer,
                            .seed = run.seed,
                            .ranks = ranks.trainers(),
                            .nodes = ranks.nodes,
                            .dedicated_server = ranks.dedicated_server,
                            .batch = run.batch,
                            .steps = run.steps,
                            .warmup = run.warmup};
  if (!processes.servers.empty()) {
    std::filesystem::path table = command.output;
    write_whole_file(table.replace_extension(".updates.csv"), to_csv(processes.updates()));
  }
  write_whole_file(command.output, step_report(request, processes.ranks, processes.servers));
  print_summary(processes, run.warmup, command.output);
  if (!command.curve.empty()) write_curve(command, processes);
}

/// What the ranks train.
void add_training_options(CLI::App& step, StepCommand& command) {
  StepRunOptions& run = command.run;
  step.add_option("--strategy", run.strategy, "ddp, fsdp, ps-sync, ps-ssp or ps-async")
      ->required()
      ->check(CLI::IsMember({"ddp", "fsdp", "ps-sync", "ps-ssp", "ps-async"}))
      ->type_name("NAME");
  step.add_option("--model", run.model, "One of `list models`")->required()->type_name("NAME");
  step.add_option("--image", run.shape.image, "Pixels per side, where not the model's own")
      ->type_name("N");
  step.add_option("--sequence", run.shape.sequence, "Tokens per sample, likewise")->type_name("N");
  step.add_option("--precision", command.precision, "fp32, tf32, bf16 or bf16_pure")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "bf16_pure"}))
      ->type_name("NAME");
  step.add_option("--batch", run.batch, "Samples of each rank")
      ->check(CLI::Range(1, 1000000))
      ->type_name("B");
  step.add_option("--optimizer", run.optimizer, "sgd, adam or adamw; servers have sgd")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->type_name("NAME");
  step.add_option("--learning-rate", run.learning_rate, "Of the optimizer")
      ->check(CLI::NonNegativeNumber)
      ->type_name("RATE");
  step.add_option("--momentum", run.momentum, "Of sgd")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("M");
  step.add_option("--seed", run.seed, "Of the weights and of each rank's batch")->type_name("N");
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
  step.add_option("--warmup-rounds", command.mitigation.warmup_rounds,
                  "ps-ssp, ps-async: synchronous rounds first")
      ->check(CLI::Range(1, 1000000))
      ->type_name("K");
  step.add_option("--jitter", command.jitter_ms,
                  "Mean of an exponential delay added to every worker's steps")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MS");
  step.add_option("--weight-decay", command.weight_decay, "Of the workers' gradients")
      ->check(CLI::NonNegativeNumber)
      ->type_name("D");
  add_mitigation_options(step, command.mitigation);
  step.add_flag("--dedicated-server", command.dedicated_server,
                "Servers have rank 0's node to themselves; other nodes train");
}

void add_curve_options(CLI::App& step, StepCommand& command) {
  add_data_options(step, command.data);
  step.add_option("--curve", command.curve, "Loss and accuracy over time, on --data (JSON)")
      ->type_name("FILE");
  step.add_option("--eval-every", command.eval_every,
                  "Updates between two points of the curve; else twenty points")
      ->check(CLI::Range(1, 1000000000))
      ->type_name("K");
}

}  // namespace

void add_step_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<StepCommand>();
  CLI::App* step = app.add_subcommand("step", "Time real training steps across processes");
  step->add_option("--nproc", command->nproc,
                   "Processes that train, on this node, where no launcher started several")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  add_training_options(*step, *command);
  add_strategy_options(*step, command->run);
  step->add_option("--threads", command->run.threads,
                   "Host threads of each rank; else its share of the cores")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  step->add_option("--steps", command->run.steps, "Measured steps")
      ->check(CLI::Range(1, 1000000))
      ->type_name("K");
  step->add_option("--warmup", command->run.warmup, "Steps before them")
      ->check(CLI::Range(0, 1000))
      ->type_name("K");
  step->add_option("--slow", command->slow, "A rank whose steps take longer: 1:30")
      ->type_name("RANK:MS");
  step->add_option("--timeout", command->timeout, "Seconds to wait for another rank")
      ->check(CLI::Range(1.0, 1e6))
      ->type_name("S");
  step->add_option("--output", command->output, "The report (JSON)")->type_name("FILE");
  step->add_option("--memory-snapshot", command->run.allocations,
                   "Every event of rank 0's caching allocator (JSON); on GPUs")
      ->type_name("FILE");
  add_server_options(*step, *command);
  add_curve_options(*step, *command);
  step->add_flag("--cpu", command->run.cpu, "Train on CPUs though there are GPUs");
  step->add_flag("--dry-run", command->dry_run,
                 "Print what would be measured, and how long it takes");
  step->add_flag("--quiet", command->quiet, "No progress line");
  step->callback([command, step, &invocation] {
    check_strategy_options(*step, command->run.strategy);
    run_step(*command, invocation);
  });
}

}  // namespace rehearse::inline calibrate
