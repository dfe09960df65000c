#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/step_processes.hpp"
#include "cli/strategy_options.hpp"
#include "measure/precision.hpp"
#include "models/networks.hpp"
#include "profile/whole_file.hpp"

namespace rehearse {
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
    filled_shape(run.model, run.shape);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: {}", error.what()));
  }
  if (command.output.empty() && !command.dry_run) {
    throw InputError("error: --output: the report's file is missing");
  }
}

void run_step(StepCommand& command, const Invocation& invocation) {
  complete(command);
  const Ranks ranks = ranks_of(command);
  if (command.dry_run) return print_plan(command, ranks);
  const std::filesystem::path& allocations = command.run.allocations;
  if (!ranks.self || ranks.self->rank == 0) {
    check_can_write(command.output);
    if (!allocations.empty()) check_can_write(allocations);
  }
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
    write_whole_file(table.replace_extension(".updates.csv"),
                     to_csv(updates_of(processes.servers)));
  }
  write_whole_file(command.output, step_report(request, processes.ranks, processes.servers));
  print_summary(processes, run.warmup, command.output);
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
  step.add_flag("--dedicated-server", command.dedicated_server,
                "Servers have rank 0's node for themselves, and the other nodes' ranks train");
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
  step->add_flag("--cpu", command->run.cpu, "Train on CPUs though there are GPUs");
  step->add_flag("--dry-run", command->dry_run, "Print the plan and its estimated time");
  step->add_flag("--quiet", command->quiet, "No progress line");
  step->callback([command, step, &invocation] {
    check_strategy_options(*step, command->run.strategy);
    run_step(*command, invocation);
  });
}

}  // namespace rehearse
