#include "rollout/rl_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "base/error.hpp"
#include "economy/price.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/common_errors.hpp"
#include "rollout/refit.hpp"
#include "rollout/rl_generator.hpp"
#include "rollout/samples.hpp"
#include "rollout/trainer_run.hpp"
#include "scenario/training_part.hpp"
#include "view/views.hpp"

namespace rehearse::inline rollout {
namespace {

/// Context and CUDA graphs of an engine that sleeps (vLLM's sleep mode frees weights and cache).
constexpr double kAsleep = 2.0 * 1024 * 1024 * 1024;

void add_phase(const char* phase, const MemoryFit& own, Bytes beside, RlReport& report) {
  report.memory.push_back({phase, beside, with_beside(own, beside)});
}

void add_memory(const Generator& generator, const TrainerParts& trainer, RlReport& report) {
  const GeneratorOptions& asked = report.options.generator;
  if (!trainer.memory) return;
  const Bytes taken = generator.memory * generator.model.gpu().memory;
  const bool colocated = asked.colocated();
  const Bytes trainer_rests = asked.trainer_sleeps ? Bytes(kAsleep) : trainer.resident;
  add_phase("generation", exact_fit(taken, trainer.memory->capacity),
            colocated ? trainer_rests : Bytes(0), report);
  const Bytes engine_rests = asked.sleeps ? Bytes(kAsleep) : taken;
  add_phase("training", *trainer.memory, colocated ? engine_rests : Bytes(0), report);
}

/// This is for an algorithm that generates nothing. A teacher computes in the trainer's processes,
/// which have one context.
void add_trainer_memory(const RlOptions& options, const TrainerRun& trainer, RlReport& report) {
  const char* const phase = options.algorithm == RlAlgorithm::scoring ? "scoring" : "training";
  if (trainer.parts.memory) add_phase(phase, *trainer.parts.memory, trainer.reference, report);
  if (trainer.teacher_memory)
    add_phase("teacher", *trainer.teacher_memory, trainer.parts.resident - trainer.parts.context,
              report);
}

Seconds sum(const std::vector<RlPhase>& phases) {
  return std::accumulate(phases.begin(), phases.end(), Seconds(0),
                         [](Seconds all, const RlPhase& one) { return all + one.time; });
}

/// Ends of the sum of parts whose errors have nothing to do with each other.
class Errors {
 public:
  void add(Seconds middle, Ends<Seconds> ends) {
    low_ = std::hypot(low_, (middle - ends.low).value());
    high_ = std::hypot(high_, (ends.high - middle).value());
  }
  Ends<Seconds> around(Seconds step) const {
    return {std::max(step - Seconds(low_), Seconds(0)), step + Seconds(high_)};
  }

 private:
  double low_ = 0, high_ = 0;
};

void warn(const RlOptions& options, RlReport& report) {
  if (report.lag && report.lag->most_age > 0)
    report.warnings.push_back(
        fmt::format("responses are up to {:.0f} steps old when they are trained on: what that "
                    "costs in reward "
                    "is not predicted. AReaL (arXiv 2505.24298) keeps its reward to an age of 8 "
                    "with a decoupled "
                    "objective, and loses some from 1 on without",
                    report.lag->most_age));
  if (options.lengths.response.deviation == 0 && generates(options.algorithm))
    report.warnings.emplace_back(
        "rl.lengths.response.deviation is 0: all responses end together, and there is no tail");
  if (report.counts.preemptions > 0)
    report.warnings.push_back(fmt::format(
        "the cache is too small for {} sequences at a time: {} were preempted and computed again",
        options.generator.sequences, report.counts.preemptions));
  for (const PhaseMemory& phase : report.memory)
    if (phase.fit.verdict != MemoryVerdict::fits)
      report.warnings.push_back(fmt::format(
          "{} {}: {} and {} that stays of a GPU's {}", phase.phase, verdict_words(phase.fit),
          format(phase.own()), format(phase.beside), format(phase.fit.capacity)));
}

void add_generation(const RlQuestion& question, const TrainerRun& trainer, RlReport& report,
                    Errors& errors) {
  const RlOptions& options = question.options;
  const Generator generator = make_generator(options, question.trainer);
  const auto most = static_cast<std::size_t>(options.generator.sequences);
  const std::uint64_t seed = question.trainer.run.seed;
  report.copies = generator.copies;
  report.places = generator.places;
  report.generator_gpus = generator_cluster(options, question.trainer.cluster).gpu_count();
  const auto batch = [&](std::int64_t step) {
    return generate(generator.model, requests_of(options, generator.longest, seed, step),
                    generator.copies, generator.places, most);
  };
  const Generated one = batch(0);
  report.generation = one.time;
  report.first_copy_idle = one.time - one.mean_copy;
  report.counts = one.counts;
  report.last_copy = one.last;
  report.ends = one.ends;
  std::ranges::sort(report.ends);
  add_memory(generator, trainer.parts, report);
  const Refit refit = refit_of(options, static_cast<double>(question.trainer.model.parameters()));
  const TrainerSleep sleep = trainer_sleep(options, trainer.parts);
  const EngineError& off = generator.model.engine().off;
  const Seconds training = sum(report.phases);
  Seconds generation = one.time, exposed_refit = refit.time;
  if (options.generator.colocated()) {
    const Seconds weights = refit.time + sleep.before_generation;
    report.phases.insert(report.phases.begin(), {{"refit", weights}, {"generation", one.time}});
    report.step = sum(report.phases);
  } else {
    const double limit = options.staleness.limit;
    report.lag =
        options.staleness.in_flight
            ? lag_in_flight(
                  {generator.model, generator.copies, generator.places, most}, options.staleness,
                  options.updates,
                  [&](std::int64_t step) {
                    return requests_of(options, generator.longest, seed, step);
                  },
                  training, refit.time)
            : lag_by_batches(
                  static_cast<std::int64_t>(limit),
                  [&](std::int64_t step) { return batch(step).time; }, training, refit.time);
    report.step = report.lag->step;
    generation = report.lag->trainer_waits;
    if (limit > 0) exposed_refit = Seconds(0);
    if (limit == 0) report.phases.insert(report.phases.begin(), {"refit", refit.time});
    report.phases.insert(report.phases.begin(), {"waiting for responses", generation});
  }
  errors.add(generation, {generation * std::exp(off.low), generation * std::exp(off.high)});
  if (exposed_refit > Seconds(0)) errors.add(refit.time, refit.ends);
  errors.add(sleep.step.time, sleep.step.ends);
  if (sleep.step.time > Seconds(0) && !options.generator.sleep_rate)
    report.assumptions.push_back(fmt::format(
        "rl.generator.sleep_rate: the trainer's states come and go in {} of a step, from {} to {} "
        "(platforms/refits.yaml)",
        format(sleep.step.time), format(sleep.step.ends.low), format(sleep.step.ends.high)));
  if (!is_measured(generator.model.gpu()))
    report.assumptions.push_back(fmt::format(
        "rl.generator: kernels and host on {} as on Hopper: no rows are of its generation",
        generator.model.gpu().name));
  if (generator.model.takes_fp16())
    report.assumptions.push_back(
        fmt::format("rl.generator: fp16 in the place of bf16, for which {} has no unit",
                    generator.model.gpu().name));
  if (!options.generator.memory)
    report.assumptions.push_back(fmt::format("rl.generator.memory = {:g}", generator.memory));
  if (!options.refit.time && !options.refit.rate)
    report.assumptions.push_back(
        fmt::format("rl.refit.time = {}, from {} to {} (platforms/refits.yaml)", format(refit.time),
                    format(refit.ends.low), format(refit.ends.high)));
}

/// Of the trainer's nodes and the generator's own; nothing where one has no price.
std::optional<double> price_of(const RlQuestion& question) {
  const Scenario& trainer = question.trainer;
  const Market market = trainer.train.market;
  const std::optional<double> usd = usd_per_hour(trainer.cluster, market);
  const GeneratorOptions& generator = question.options.generator;
  if (!usd || generator.colocated()) return usd;
  return *usd + *usd_per_hour(generator_cluster(question.options, trainer.cluster), market);
}

}  // namespace

const PhaseMemory* RlReport::tightest() const {
  const auto sureness = [](const PhaseMemory& phase) {
    return std::pair(-static_cast<int>(phase.fit.verdict),
                     probability_of_fitting(phase.fit).value_or(1));
  };
  const auto least = std::ranges::min_element(memory, {}, sureness);
  return least == memory.end() ? nullptr : &*least;
}

MemoryVerdict RlReport::verdict() const {
  const PhaseMemory* const phase = tightest();
  return phase == nullptr ? MemoryVerdict::unknown : phase->fit.verdict;
}

bool RlReport::fits() const {
  return std::ranges::all_of(memory, [](const PhaseMemory& phase) { return is_likely(phase.fit); });
}

std::string verdict_words(const MemoryFit& fit) {
  if (fit.verdict != MemoryVerdict::at_risk) return to_string(fit.verdict);
  const std::optional<double> chance = probability_of_fitting(fit);
  return "may not fit" + (chance ? ": fits with " + chance_words(*chance) : "");
}

bool asks_for_rl(const Document& document) {
  const Value root = document.root();
  return root.is_map() && root.as_map().has("rl") && !root.as_map().has("scenario");
}

namespace {

/// The training with the teacher in the place of its network.
Scenario read_teacher(Map& root, const Document& document, std::vector<std::string> changes) {
  const std::string teacher = root.require("rl").as_map().require("teacher").as_string();
  // It is named as the student is.
  const char* const key = root.require("model").as_map().has("hf") ? "hf" : "use";
  changes.push_back(fmt::format("model.{}={}", key, teacher));
  return read_training_part(*document.with_overrides(changes));
}

/// Refuses keys of `train` that `rl:` says: prompts of a step, and tokens, which responses make.
void check_train(const Map& train) {
  for (const auto& [key, why, remedy] :
       {std::tuple("like", "what post-training costs in reward is not predicted",
                   "leave train.like (--like) out"),
        std::tuple("tokens", "how many tokens a step of post-training has hangs on its responses",
                   "train: {steps: 200}, or samples_per_epoch (prompts) and epochs"),
        std::tuple("global_batch", "a step of post-training trains on rl.prompts, in rl.updates",
                   "leave it out")})
    if (train.has(key)) train.at_key(key).fail(why, remedy);
}

/// Steps of the whole training: epochs are of prompts, or of pairs.
std::optional<std::int64_t> steps_of(const RlQuestion& question) {
  const Train& train = question.trainer.train;
  if (train.steps || !train.samples_per_epoch || !train.epochs) return train.steps;
  const double prompts = static_cast<double>(*train.samples_per_epoch) * *train.epochs;
  return static_cast<std::int64_t>(
      std::ceil(prompts / static_cast<double>(question.options.prompts)));
}

}  // namespace

RlQuestion read_rl_question(const Document& document, bool serves) {
  RlQuestion question;
  Map root = document.root().as_map();
  question.options = read_rl_section(root.require("rl"));
  Trainer trainer = read_trainer(document, question.options);
  question.trainer = std::move(trainer.scenario);
  if (question.trainer.strategy.local_sgd)
    root.at_key("strategy")
        .fail("a step of post-training averages at each update", "leave local_sgd out");
  if (!question.trainer.transformer)
    root.at_key("model").fail("post-training is of language models here",
                              "use: llama_3_8b, or another transformer");
  if (micro_batches_of(question.trainer.strategy) == nullptr)
    root.at_key("strategy")
        .fail("it accumulates no micro-batches, as an update's samples need",
              "ddp, fsdp and zero do");
  if (root.has("train")) check_train(root.require("train").as_map());
  if (!question.options.teacher.empty())
    question.teacher = read_teacher(root, document, std::move(trainer.changes));
  if (!generates(question.options.algorithm) || !serves) return question;
  try {
    make_generator(question.options, question.trainer);
  } catch (const std::invalid_argument& wrong) {
    Map rl = root.require("rl").as_map();
    (rl.has("generator") ? rl.at_key("generator") : root.at_key("rl"))
        .fail(wrong.what(), what_serves(question.options, question.trainer));
  }
  return question;
}

void check_rl_question(const Document& document) {
  RlQuestion question = read_rl_question(document);
  set_micro_batches(question.options, question.trainer);
  machine_of(question.trainer);
}

RlReport rl_step(const RlQuestion& question, const TrainerRun& trainer) {
  const RlOptions& options = question.options;
  RlReport report;
  report.file = question.trainer.file;
  report.network = question.trainer.model.name;
  report.options = options;
  report.trainer_gpus = question.trainer.cluster.gpu_count();
  report.tokens = static_cast<double>(options.sequences()) * total(options.lengths).mean;
  if (options.has_reference())
    report.assumptions.push_back(reference_note(options, question.trainer));
  if (options.has_critic() && !options.critic)
    report.assumptions.emplace_back("rl.critic: true of ppo (verl algorithm.adv_estimator: gae)");
  report.usd_per_hour = price_of(question);
  report.steps = steps_of(question);
  report.trainer = trainer.parts;
  report.phases = trainer_phases(options, trainer);
  Errors errors;
  const Seconds training = sum(report.phases) - options.reward;
  if (trainer.update)
    errors.add(training, {training * (trainer.update->low / trainer.parts.update),
                          training * (trainer.update->high / trainer.parts.update)});
  if (generates(options.algorithm)) {
    add_generation(question, trainer, report, errors);
  } else {
    report.step = sum(report.phases);
    add_trainer_memory(options, trainer, report);
  }
  if (trainer.update) report.step_interval = errors.around(report.step);
  warn(options, report);
  return report;
}

}  // namespace rehearse::inline rollout
