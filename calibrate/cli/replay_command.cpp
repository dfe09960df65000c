#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "cli/training_options.hpp"
#include "config/whole_file.hpp"
#include "replay/replay.hpp"

namespace rehearse::inline calibrate {
namespace {

struct ReplayCommand {
  std::filesystem::path updates, output;
  DatasetOptions data;
  ReplayOptions replay;
  bool quiet = false;
};

void print_summary(const Curve& curve, const Dataset& data, const ReplayCommand& command) {
  fmt::print("{} of {}: {}\n", curve.model, curve.dataset, data.split);
  fmt::print("{} updates of {} workers, staleness mean {:.2f}, most {}\n", curve.updates,
             curve.workers, curve.staleness.mean, curve.staleness.max);
  const CurvePoint& last = curve.points.back();
  fmt::print("after {} and {} samples: test accuracy {:.2f} %{}\n", format(last.time), last.samples,
             100 * last.test_accuracy, curve.diverged ? ", diverged" : "");
  fmt::print("curve: {}\n", command.output.string());
}

/// A log may say that its updates are of several steps each.
void take_local_steps_of(const RunUpdates& run, ReplayCommand& command) {
  std::uint32_t& asked = command.replay.training.mitigation.local_steps;
  const std::uint32_t logged = run.mitigation.local_steps;
  if (logged == 1 || asked == logged) return;
  if (asked != 1) {
    throw InputError(
        fmt::format("{}: error: --local-steps: the log is of {} local steps; got {}\n"
                    "remedy: leave it out",
                    command.updates.string(), logged, asked));
  }
  asked = logged;
}

/// And that an outer optimizer made of them.
void take_outer_optimizer_of(const RunUpdates& run, ReplayCommand& command) {
  std::optional<OuterSgd>& asked = command.replay.training.mitigation.outer;
  if (!run.mitigation.outer || asked == run.mitigation.outer) return;
  if (asked)
    throw InputError(
        fmt::format("{}: error: --outer-learning-rate: the log says what its outer optimizer is\n"
                    "remedy: leave out --outer-learning-rate, --outer-momentum and "
                    "--outer-without-nesterov",
                    command.updates.string()));
  asked = run.mitigation.outer;
}

void run_replay(ReplayCommand& command) {
  ReplayOptions& options = command.replay;
  if (!command.data.is_given())
    throw InputError(
        "error: --data: the data are missing\nremedy: --data FOLDER, or --format "
        "markov for generated text");
  const RunUpdates run = read_updates(command.updates);
  take_local_steps_of(run, command);
  take_outer_optimizer_of(run, command);
  const Dataset data = read_dataset(command.data);
  check_can_write(command.output);
  if (!options.state.empty()) {
    catch_stop_signals();
    options.stop = [] { return stop_signal() != 0; };
  }
  Progress progress(command.quiet);
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    progress.update(static_cast<double>(done) / static_cast<double>(all),
                    fmt::format("update {} of {}", done, all));
  };
  const auto curve = replay(run, data, options);
  if (!curve) fail_as_stopped(options.state.string() + " holds the training so far");
  write_whole_file(command.output, to_json(*curve));
  print_summary(*curve, data, command);
}

void add_training_options(CLI::App& app, TrainingOptions& training) {
  app.add_option("--model", training.model, "One of `list models`; it takes images, or text")
      ->type_name("NAME");
  app.add_option("--batch", training.batch, "Samples of each gradient")
      ->check(CLI::Range(1, 1000000))
      ->type_name("B");
  app.add_option("--learning-rate", training.learning_rate, "Of the servers' SGD")
      ->check(CLI::NonNegativeNumber)
      ->type_name("RATE");
  app.add_option("--momentum", training.momentum, "Likewise")
      ->check(CLI::Range(0.0, 0.999999))
      ->type_name("M");
  app.add_option("--weight-decay", training.weight_decay, "Likewise")
      ->check(CLI::NonNegativeNumber)
      ->type_name("D");
  app.add_option("--seed", training.seed, "Of the weights and of the order of samples")
      ->type_name("N");
}

}  // namespace

void add_replay_command(CLI::App& app, const Invocation&) {
  auto command = std::make_shared<ReplayCommand>();
  command->replay.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  CLI::App* replay =
      app.add_subcommand("replay", "Train a network with the stale gradients of an update log");
  replay
      ->add_option("--updates", command->updates,
                   "The log, of `rehearse run --updates` or of `step`")
      ->required()
      ->type_name("FILE");
  add_data_options(*replay, command->data);
  add_training_options(*replay, command->replay.training);
  add_mitigation_options(*replay, command->replay.training.mitigation);
  replay->add_option("--epochs", command->replay.epochs, "Of the log only so many; else all of it")
      ->check(CLI::PositiveNumber)
      ->type_name("E");
  replay
      ->add_option("--eval-every", command->replay.eval_every,
                   "Updates between two points of the curve; else twenty points")
      ->check(CLI::Range(1, 1000000000))
      ->type_name("K");
  replay
      ->add_option("--threads", command->replay.threads,
                   "Gradients computed side by side; it changes no number")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  replay->add_option("--output", command->output, "The curve (JSON)")
      ->required()
      ->type_name("FILE");
  replay
      ->add_option("--resume", command->replay.state,
                   "Keeps what is done in this file, and goes on from it")
      ->type_name("FILE");
  replay->add_flag("--quiet", command->quiet, "No progress line");
  replay->callback([command] { run_replay(*command); });
}

}  // namespace rehearse::inline calibrate
