#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "report/memory_verdict.hpp"
#include "rollout/lag.hpp"
#include "rollout/rl_options.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline rollout {

/// What the trainer does of a step, as its own schedule is played.
struct TrainerParts {
  Seconds update;                  ///< one update of the optimizer, all of its micro-batches
  Seconds forward;                 ///< forward passes alone over the samples of one update
  std::int64_t micro_batches = 1;  ///< of an update, on each replica
  double samples = 0;              ///< of an update
  /// It is a GPU's: an update's, of `scoring` a forward pass's; nothing where it is not known.
  std::optional<MemoryFit> memory;
  Bytes resident;    ///< parameters, optimizer's state and context, which stay at rest
  Bytes parameters;  ///< of that, one network's parameters; a critic has as many
  Bytes context;     ///< of that, the CUDA context
};

/// The trainer's parts, with 90 % of an update's time.
struct TrainerRun {
  TrainerParts parts;
  std::optional<Ends<Seconds>> update;
  /// Distillation has it: the teacher's forward passes over the samples of an update.
  Seconds teacher;
  std::optional<MemoryFit> teacher_memory;
  /// The reference's parameters on a GPU beside an update; 0 where it leaves the GPUs, or is none.
  Bytes reference;
};

/// A phase of the step.
struct RlPhase {
  std::string name;
  Seconds time;
};

/// Whether a phase's memory is there, of a GPU, by the verdict of every report.
struct PhaseMemory {
  std::string phase;
  Bytes beside;   ///< what others keep meanwhile
  MemoryFit fit;  ///< of both together

  Bytes own() const { return fit.used - beside; }
};

struct RlReport {
  std::string file, network;
  RlOptions options;
  std::size_t trainer_gpus = 0, generator_gpus = 0;  ///< the same ones where colocated
  TrainerParts trainer;
  std::vector<RlPhase> phases;  ///< in order; of a lagging generator those of the trainer
  Seconds step;
  std::optional<Ends<Seconds>> step_interval;  ///< 90 %, where the trainer's was asked for
  // Of algorithms that generate.
  Seconds generation;       ///< of the step's responses, if nothing else runs
  Seconds first_copy_idle;  ///< mean time for which copies wait for the last one, of that
  std::size_t copies = 0;
  double places = 0;  ///< tokens of a tensor group's cache
  BatcherCounts counts;
  std::vector<CopyLoad> last_copy;  ///< of the one that ends last, if nothing else runs
  std::vector<Seconds> ends;        ///< of responses, in order, if nothing else runs
  std::optional<LagRun> lag;
  double tokens = 0;                   ///< of prompts and responses in a step
  std::optional<double> usd_per_hour;  ///< of all nodes, the generator's own too
  std::optional<std::int64_t> steps;   ///< of the whole training, where train.steps says it
  std::vector<PhaseMemory> memory;
  std::vector<std::string> assumptions, warnings;

  std::size_t gpus() const {
    return options.generator.colocated() ? trainer_gpus : trainer_gpus + generator_gpus;
  }
  /// The phase that is the least sure to fit; null where no GPU's memory is known.
  const PhaseMemory* tightest() const;
  MemoryVerdict verdict() const;  ///< the tightest phase's
  bool fits() const;              ///< whether all phases are likelier to fit than not
  std::optional<double> usd_per_step() const {
    if (!usd_per_hour) return std::nullopt;
    return *usd_per_hour * step.value() / 3600;
  }
};

/// "fits", "may not fit: fits with 86 %", "does not fit".
std::string verdict_words(const MemoryFit& fit);

/// Whether the file has a section `rl:`.
bool asks_for_rl(const Document& document);
/// Reads all of it: InputError at what is wrong.
struct RlQuestion {
  RlOptions options;
  Scenario trainer;                 ///< with samples of the section's lengths
  std::optional<Scenario> teacher;  ///< the same training of the teacher
};
/// `serves`: InputError, too, where its generator cannot be.
RlQuestion read_rl_question(const Document& document, bool serves = true);
/// The same, and InputError where its schedules cannot be made.
void check_rl_question(const Document& document);

/// Plays the trainer in child processes: what it does hangs on no part of the generator.
TrainerRun play_trainer(const RlQuestion& question, bool intervals = true);
/// Predicts the step, with the trainer as it was played.
RlReport rl_step(const RlQuestion& question, const TrainerRun& trainer);
inline RlReport rl_step(const RlQuestion& question) {
  return rl_step(question, play_trainer(question));
}

/// Text for people; `defaults`: the trainer's too, which nobody said.
std::string to_terminal(const RlReport& report, const std::vector<std::string>& defaults = {});
/// `rehearse.rollout/1`.
std::string to_json(const RlReport& report);
std::string to_csv(const RlReport& report);

}  // namespace rehearse::inline rollout
