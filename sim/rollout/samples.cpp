#include "rollout/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "rollout/rl_generator.hpp"
#include "scenario/training_part.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse::inline rollout {
namespace {

/// Kernels of packed samples take their tokens in blocks of so many.
constexpr double kBlock = 128;

/// At least one. A sum's last bits are no sample of their own.
double rounded_up(double count) { return std::max(1.0, std::ceil(count - 1e-9)); }

double micro_batches(Scenario& trainer) {
  return static_cast<double>(*micro_batches_of(trainer.strategy));
}

double replicas_of(Scenario& trainer) {
  return machine_of(trainer).schedule.samples_per_iteration /
         (micro_batches(trainer) * static_cast<double>(trainer.batch_per_gpu));
}

bool pads_samples(const Strategy& strategy) { return mesh_of(strategy).pipeline > 1; }

std::string packed(double tokens, const RlLengths& lengths) {
  const Lengths both = total(lengths);
  return fmt::format(
      "model.sequence={{packed: {:.0f}, documents: {{mean: {:.6g}, deviation: "
      "{:.6g}}}}}",
      tokens, both.mean, both.deviation);
}

double capacity_of(Map& root, const RlOptions& options, const Value& sequence) {
  const auto tokens = static_cast<double>(sequence.as_integer(1, 100'000'000));
  const double mean = total(options.lengths).mean;
  if (mean > tokens)
    sequence.fail(fmt::format("a prompt and its response have {:.0f} tokens in the mean, and a "
                              "sample {:.0f}",
                              mean, tokens),
                  fmt::format("sequence: {:.0f} or more", std::ceil(mean)));
  const Lengths limits = total(options.lengths);
  if (options.packing || limits.limit <= 0 || limits.limit <= tokens) return tokens;
  root.at_key("rl").fail(
      fmt::format("without packing each sequence is padded to {:.0f} tokens, the limits of prompt "
                  "and response, and a sample has {:.0f}",
                  limits.limit, tokens),
      fmt::format("model: {{sequence: {:.0f}, ...}}, or packing: true", limits.limit));
  return tokens;
}

Scenario read_with(const Document& document, const std::vector<std::string>& changes) {
  return solved(read_training_part(changes.empty() ? document : *document.with_overrides(changes)));
}

bool can_be_filled(Scenario& trainer) {
  return micro_batches_of(trainer.strategy) != nullptr && !trainer.strategy.local_sgd;
}

}  // namespace

double fullest_tokens(const RlOptions& options, double replicas, std::uint64_t seed) {
  const auto sequences = static_cast<std::size_t>(options.sequences());
  const auto updates = static_cast<std::size_t>(options.updates);
  const double mean = total(options.lengths).mean;
  const auto parts = static_cast<std::size_t>(std::max(1.0, replicas));
  if (options.balance == Balance::tokens)
    return static_cast<double>(sequences) * mean / static_cast<double>(updates * parts);
  const std::vector<Request> all =
      requests_of(options, std::numeric_limits<double>::max(), seed, 0);
  double sum = 0;
  for (std::size_t update = 0; update < updates; ++update) {
    double most = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto bound = [&](std::size_t at) {
        return (update * parts + at) * all.size() / (updates * parts);
      };
      double tokens = 0;
      for (std::size_t i = bound(part); i < bound(part + 1); ++i)
        tokens += all[i].prompt + all[i].response;
      most = std::max(most, tokens);
    }
    sum += most;
  }
  return sum / static_cast<double>(updates);
}

Trainer read_trainer(const Document& document, const RlOptions& options) {
  Map root = document.root().as_map();
  Map model = root.require("model").as_map();
  const std::optional<Value> sequence = model.optional("sequence");
  if (!sequence)
    root.at_key("model").fail("how many tokens a sample has is not said",
                              "model: {sequence: 4096, ...}, with place for prompt and response");
  if (sequence->is_map()) return {.scenario = read_with(document, {})};
  const double capacity = capacity_of(root, options, *sequence);
  if (!options.packing) {
    const double limit = total(options.lengths).limit;
    Trainer padded;
    if (limit > 0) padded.changes = {fmt::format("model.sequence={:.0f}", limit)};
    padded.scenario = read_with(document, padded.changes);
    return padded;
  }
  Trainer trainer;
  trainer.changes = {packed(capacity, options.lengths)};
  trainer.scenario = read_with(document, trainer.changes);
  if (!can_be_filled(trainer.scenario) || pads_samples(trainer.scenario.strategy)) return trainer;
  Scenario& scenario = trainer.scenario;
  const double tokens = fullest_tokens(options, replicas_of(scenario), scenario.run.seed);
  const double least = rounded_up(tokens / capacity);
  const double micro = rounded_up(least / static_cast<double>(scenario.batch_per_gpu));
  const double samples = micro * rounded_up(least / micro);
  const double mean = total(options.lengths).mean;
  const double filled = kBlock * std::ceil(std::max(tokens / samples, mean) / kBlock);
  if (filled >= capacity) return trainer;
  trainer.changes = {packed(filled, options.lengths)};
  trainer.scenario = read_with(document, trainer.changes);
  return trainer;
}

double samples_of_update(const RlOptions& options, const Scenario& trainer) {
  const auto sequences = static_cast<double>(options.sequences());
  const double samples = options.packing ? sequences * total(options.lengths).mean /
                                               static_cast<double>(trainer.model.tokens_per_sample)
                                         : sequences;
  return samples / static_cast<double>(options.updates);
}

int set_micro_batches(const RlOptions& options, Scenario& trainer) {
  const double replicas = replicas_of(trainer);
  double samples = samples_of_update(options, trainer) / replicas;
  if (options.packing)
    samples = fullest_tokens(options, replicas, trainer.run.seed) /
              static_cast<double>(trainer.model.tokens_per_sample);
  int* const micro = micro_batches_of(trainer.strategy);
  *micro = static_cast<int>(rounded_up(samples / static_cast<double>(trainer.batch_per_gpu)));
  trainer.batch_per_gpu = static_cast<std::int64_t>(rounded_up(samples / *micro));
  return *micro;
}

bool copies_policy(const RlOptions& options, const Scenario& trainer) {
  return options.has_reference() && !(trainer.adaptation && trainer.adaptation->lora);
}

std::string reference_note(const RlOptions& options, const Scenario& trainer) {
  if (!copies_policy(options, trainer))
    return "rl.reference is the policy without its adapters, and no copy (PEFT disable_adapter)";
  if (generates(options.algorithm))
    return "rl.reference lies in host memory while it computes nothing (verl ref.fsdp_config."
           "param_offload)";
  return "rl.reference stays on the GPUs, laid out as the policy is (TRL DPOTrainer.ref_model)";
}

}  // namespace rehearse::inline rollout
