// The trainer's part of a step: its schedule is played, and phases are made of that.
#include "rollout/trainer_run.hpp"

#include "base/child_process.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "predict/report_of.hpp"
#include "rollout/forward_pass.hpp"
#include "rollout/refit.hpp"
#include "rollout/samples.hpp"
#include "view/views.hpp"

namespace rehearse::inline rollout {
namespace {

/// Forward passes alone, on the trainer's layout, need this.
Report forward_report(Scenario trainer) {
  trainer.trains = false;
  return report_from_json(in_child_process([&] {
    Machine machine = machine_of(trainer);
    machine.schedule = forward_passes(std::move(machine.schedule));
    const Options brief{.find_largest_batch = false, .intervals = false, .memory_interval = true};
    return to_json(predict(trainer, std::move(machine), brief).report);
  }));
}

/// Trainer's passes over the step's sequences that are no updates.
int forward_passes_of(const RlOptions& options) {
  if (options.algorithm == RlAlgorithm::kto) return 1;  // of its KL term
  if (options.algorithm == RlAlgorithm::scoring) return 1;
  if (!generates(options.algorithm)) return 0;
  return (options.old_log_probs ? 1 : 0) + (options.has_critic() ? 1 : 0);
}

/// Counts the networks that are trained: the policy, and a critic as large as it.
int networks_of(const RlOptions& options) { return options.has_critic() ? 2 : 1; }

/// A GPU's part of this kind at the peak.
Bytes at_peak(const Report& report, MemoryKind kind) {
  return report.memory ? report.memory->at_peak.by_kind[static_cast<std::size_t>(kind)] : Bytes(0);
}

/// The verdict where the GPU's memory is known.
std::optional<MemoryFit> known_fit(const Report& report) {
  const std::optional<MemoryFit> fit = memory_fit(report);
  return fit && fit->capacity > Bytes(0) ? fit : std::nullopt;
}

TrainerRun play(const RlOptions& options, Scenario trainer, bool needs_forward, bool intervals) {
  TrainerRun run;
  run.parts.micro_batches = set_micro_batches(options, trainer);
  run.parts.samples = samples_of_update(options, trainer);
  const Report report = report_of(
      trainer, {.find_largest_batch = false, .intervals = intervals, .memory_interval = true});
  run.parts.update = report.step_time;
  if (intervals) run.update = {report.step_time, report.step_time};
  for (const KeyBounds& one : report.intervals)
    if (intervals && one.key == "step_time_s")
      run.update = {Seconds(one.bounds.low), Seconds(one.bounds.high)};
  run.parts.memory = known_fit(report);
  if (needs_forward) {
    const bool copies = copies_policy(options, trainer) && !generates(options.algorithm);
    const Report forward = forward_report(std::move(trainer));
    run.parts.forward = forward.step_time;
    if (copies) run.reference = at_peak(forward, MemoryKind::parameters);
    if (options.algorithm == RlAlgorithm::scoring) run.parts.memory = known_fit(forward);
  }
  if (!report.memory) return run;
  const Bytes states = at_peak(report, MemoryKind::optimizer_state);
  run.parts.context = report.memory->context;
  run.parts.parameters = at_peak(report, MemoryKind::parameters);
  run.parts.resident =
      networks_of(options) * (run.parts.parameters + states) + report.memory->context;
  // A critic's states lie beside the policy's update.
  if (options.has_critic() && run.parts.memory && !options.generator.trainer_sleeps)
    run.parts.memory = with_beside(
        *run.parts.memory, run.parts.parameters + states + at_peak(report, MemoryKind::gradients));
  return run;
}

/// A GPU's bytes that go to the host and come back in a step: for each of `forwards` passes, and
/// for new weights, the parameters; for updates all that stays.
struct AsleepBytes {
  Bytes of_forwards, of_weights, of_updates;
};

AsleepBytes asleep_of(const RlOptions& options, const TrainerParts& parts) {
  if (!options.generator.trainer_sleeps) return {};
  const bool hands_over = options.generator.colocated() && !options.refit.time;
  return {.of_forwards = forward_passes_of(options) * parts.parameters,
          .of_weights = hands_over ? parts.parameters : Bytes(0),
          .of_updates = parts.resident - parts.context};
}

}  // namespace

std::vector<RlPhase> trainer_phases(const RlOptions& options, const TrainerRun& run) {
  const TrainerParts& parts = run.parts;
  const auto updates = static_cast<double>(options.updates);
  const Seconds forward = updates * parts.forward;
  const MeasuredPasses& took = options.measured;
  std::vector<RlPhase> phases;
  const auto phase = [&](const char* name, Seconds time) {
    if (time > Seconds(0)) phases.push_back({name, time});
  };
  phase("rewards", options.reward);
  const bool scores = options.algorithm == RlAlgorithm::scoring;
  const Seconds prepare = generates(options.algorithm) ? preparation() : Seconds(0);
  const int forwards = forward_passes_of(options);
  const int preparations = forwards > 0 || options.has_reference() ? 2 : 1;
  phase("preparation", preparations * prepare);
  const AsleepBytes asleep = asleep_of(options, parts);
  phase(options.has_critic() ? "log-probabilities, values" : "log-probabilities",
        took.forward * (forwards * forward + sleep_of(options, asleep.of_forwards).time));
  const int references = options.algorithm == RlAlgorithm::kto ? 2 : 1;
  if (options.has_reference()) phase("reference", took.forward * references * forward);
  phase("teacher", updates * run.teacher);
  if (!scores)
    phase("training", took.training * (networks_of(options) * static_cast<double>(options.epochs) *
                                           updates * parts.update +
                                       sleep_of(options, asleep.of_updates).time));
  return phases;
}

TrainerSleep trainer_sleep(const RlOptions& options, const TrainerParts& parts) {
  const AsleepBytes asleep = asleep_of(options, parts);
  return {.before_generation = sleep_of(options, asleep.of_weights).time,
          .step = sleep_of(options, asleep.of_forwards + asleep.of_weights + asleep.of_updates)};
}

TrainerRun play_trainer(const RlQuestion& question, bool intervals) {
  const RlOptions& options = question.options;
  const bool needs_forward = forward_passes_of(options) > 0 || options.has_reference();
  TrainerRun run = play(options, question.trainer, needs_forward, intervals);
  if (question.teacher) {
    Scenario teacher = *question.teacher;
    set_micro_batches(options, teacher);
    const Report forward = forward_report(std::move(teacher));
    run.teacher = forward.step_time;
    run.teacher_memory = known_fit(forward);
  }
  return run;
}

}  // namespace rehearse::inline rollout
