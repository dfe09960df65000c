#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "cli/compute_command.hpp"
#include "cli/starting_profile.hpp"
#include "config/whole_file.hpp"
#include "measure/host_threads.hpp"
#include "measure/precision.hpp"
#include "measure/step_runner.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

ProfileOrigin origin_of(const MeasuredDevice& device, const std::string& command_line) {
  const DeviceIdentity identity = device.identity();
  return {.device = identity.name,
          .driver = identity.driver,
          .cuda = identity.cuda,
          .libtorch = TORCH_VERSION,
          .date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))),
          .command = command_line,
          .host_threads = host_threads()};
}

std::string joined(const std::vector<std::int64_t>& batches) {
  return batches.empty() ? "none" : fmt::format("{}", fmt::join(batches, ", "));
}

void print_plan(const ComputePlan& plan, const ComputeProfile& profile, MeasuredDevice& device) {
  fmt::print("{} in {} on {}, {} host {}\n", plan.model, to_string(plan.precision),
             profile.origin.device, profile.origin.host_threads,
             profile.origin.host_threads == 1 ? "thread" : "threads");
  fmt::print(
      "batches:     {}\noptimizers:  {}\n", joined(plan.batches),
      plan.optimizers.empty() ? "none" : fmt::format("{}", fmt::join(plan.optimizers, ", ")));
  fmt::print("repetitions: {} after {} to warm up, each with and without timed units\n",
             plan.repetitions, plan.warmup);
  const Seconds time = estimated_time(plan, device);
  if (!plan.batches.empty()) {
    fmt::print("estimated:   {}, from one step of batch {}\n", format(time), plan.batches.front());
  }
}

void print_summary(const ComputeProfile& profile, const std::filesystem::path& file) {
  for (const BatchPoint& point : profile.points) {
    const double difference = point.sum_difference();
    fmt::print("batch {:>4}: step {}, units {} of {} forward and backward ({:+.1f} %{}), peak {}\n",
               point.batch, format(point.whole.step), format(point.units_sum()),
               format(point.whole.forward + point.whole.backward), 100 * difference,
               std::abs(difference) > kSumTolerance ? ": MORE THAN 5 %" : "",
               format(point.allocated_peak));
  }
  for (const OptimizerTime& time : profile.optimizers) {
    fmt::print("{}: {}\n", time.kind, format(time.time));
  }
  fmt::print("profile: {}\n", file.string());
}

void measure(const ComputeCommand& command, const ComputePlan& plan, MeasuredDevice& device,
             ComputeProfile& profile) {
  catch_stop_signals();
  bool finished = false;
  {
    Progress progress(command.quiet, command.span);
    finished = calibrate_compute(
        plan, device, profile,
        {.progress = [&](double share, const std::string& now) { progress.update(share, now); },
         .keep = [&](const ComputeProfile& now) { write_whole_file(command.output, to_yaml(now)); },
         .stop = [] { return stop_signal() != 0; }});
  }
  if (finished) return;
  fail_as_stopped(command.output.string() + " holds what was measured");
}

/// Fills in what the options leave to be computed, and says what cannot be measured.
void complete(ComputeCommand& command, const MeasuredDevice& device) {
  ComputePlan& plan = command.plan;
  plan.precision = parse_precision(command.precision);
  const std::set<std::int64_t> sorted(plan.batches.begin(), plan.batches.end());
  plan.batches.assign(sorted.begin(), sorted.end());
  const std::string reason = unsupported(plan.precision, device.torch_device());
  if (!reason.empty()) throw InputError("error: --precision: " + reason);
  if (command.output.empty() && !command.dry_run) {
    throw InputError("error: --output: the profile's file is missing");
  }
}

/// What is left of the plan, with as many repetitions as fit into the budget where there is one.
ComputePlan plan_left(const ComputeCommand& command, const ComputeProfile& profile,
                      MeasuredDevice& device) {
  if (!(command.budget > Seconds(0))) return remaining(command.plan, profile);
  ComputePlan least = command.plan;
  least.repetitions = kLeastRepetitions;
  ComputePlan left = remaining(least, profile);
  if (left.batches.empty()) return left;
  const auto most = static_cast<double>(command.plan.repetitions);
  left.repetitions = command.plan.repetitions;
  const double fitting = most * (command.budget / estimated_time(left, device));
  left.repetitions =
      static_cast<std::int64_t>(std::clamp(fitting, static_cast<double>(kLeastRepetitions), most));
  return left;
}

/// A user's own module is a file; networks have names.
bool is_file(const std::string& model) {
  return model.ends_with(".pt") || model.ends_with(".pth") || model.find('/') != std::string::npos;
}

ScriptSource script_source(const ComputeCommand& command) {
  if (command.input.empty()) {
    throw InputError(
        "error: --input: the shape of one sample is missing\nremedy: such as --input 3x224x224 or "
        "--input 128:long:30522");
  }
  ScriptSource source{.file = command.plan.model, .input = {}};
  try {
    source.input = parse_script_input(command.input);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: --input: {}", error.what()));
  }
  if (!command.loss.empty()) source.loss = command.loss;
  return source;
}

/// Resolves what --model names.
void choose_model(ComputeCommand& command) {
  ComputePlan& plan = command.plan;
  try {
    if (is_file(plan.model)) {
      plan.script = script_source(command);
      plan.model = plan.script->file.stem().string();
      return;
    }
    for (const std::int64_t batch : plan.batches)
      check_batch(plan.model, plan.shape, batch, "--batches");
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: {}", error.what()));
  }
  if (!command.input.empty() || !command.loss.empty()) {
    throw InputError(
        fmt::format("error: --input and --loss are for modules of your own, and {} is built "
                    "in\nremedy: --image "
                    "or --sequence choose a built-in network's input",
                    plan.model));
  }
}

}  // namespace

void run_compute(ComputeCommand& command, const Invocation& invocation) {
  choose_model(command);
  set_host_threads(command.threads);
  const auto device = command.cpu ? make_cpu_device() : make_device();
  complete(command, *device);
  ComputeProfile profile =
      starting_profile(command.plan, origin_of(*device, invocation.command_line), command.output);
  const ComputePlan plan = plan_left(command, profile, *device);
  if (command.dry_run) return print_plan(plan, profile, *device);
  if (plan.batches.empty() && plan.optimizers.empty()) {
    fmt::print("nothing is left to measure\n");
  } else {
    measure(command, plan, *device, profile);
  }
  print_summary(profile, command.output);
}

void add_compute_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<ComputeCommand>();
  command->plan.optimizers = timed_optimizers();
  command->plan.batches = {1, 2, 4};
  ComputePlan& plan = command->plan;
  CLI::App* compute = app.add_subcommand(
      "compute", "Time every unit of a model, forward and backward, over batch sizes");
  compute->add_option("--model", plan.model, "One of `list models`, or a TorchScript file (.pt)")
      ->required()
      ->type_name("NAME|FILE");
  compute->add_option("--input", command->input, "One sample of the file's: 3x224x224, 128:long")
      ->type_name("SHAPE");
  compute->add_option("--loss", command->loss, "On its output: sum_of_squares or cross_entropy")
      ->check(CLI::IsMember(script_losses()))
      ->type_name("NAME");
  compute->add_option("--batches", plan.batches, "Batch sizes: 1,2,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000))
      ->type_name("N,N,...");
  compute->add_option("--precision", command->precision, "fp32, tf32, bf16, fp16 or bf16_pure")
      ->check(CLI::IsMember(precision_names()))
      ->type_name("NAME");
  compute->add_option("--image", plan.shape.image, "Pixels per side, where not the model's own")
      ->type_name("N");
  compute->add_option("--sequence", plan.shape.sequence, "Tokens per sample, likewise")
      ->type_name("N");
  compute->add_option("--repeat", plan.repetitions, "Timed repetitions of each batch size")
      ->check(CLI::Range(static_cast<int>(kLeastRepetitions), 100000))
      ->type_name("N");
  compute->add_option("--optimizers", plan.optimizers, "Of sgd, sgd_momentum, adam, adamw")
      ->delimiter(',')
      ->check(CLI::IsMember(timed_optimizers()))
      ->type_name("NAME,...");
  compute->add_option("--threads", command->threads, "Host threads that compute")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  compute->add_option("--output", command->output, "The profile (YAML); points in it are kept")
      ->type_name("FILE");
  compute->add_flag("--cpu", command->cpu, "Measure the CPU though there is a GPU");
  compute->add_flag("--dry-run", command->dry_run,
                    "Print what would be measured, and how long it takes");
  compute->add_flag("--quiet", command->quiet, "No progress line");
  compute->callback([command, &invocation] { run_compute(*command, invocation); });
}

}  // namespace rehearse::inline calibrate
