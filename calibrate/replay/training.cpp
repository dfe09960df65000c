#include "replay/training.hpp"

#include "base/error.hpp"

namespace rehearse::inline calibrate {

SgdOptions server_part(const TrainingOptions& options, std::uint32_t workers) {
  const Mitigation& by = options.mitigation;
  if (by.local_steps > 1) {
    if (options.momentum != 0)
      throw InputError("error: --local-steps: local SGD is without --momentum here");
    if (by.delay_compensation != 0)
      throw InputError(
          "error: --local-steps: --delay-compensation is for gradients, not for steps");
    return {.learning_rate = 1, .staleness_aware = by.staleness_aware};
  }
  MomentumAndRate sgd{options.momentum, options.learning_rate};
  if (by.momentum_correction && options.momentum >= 1)
    throw InputError("error: --momentum-correction: expected a --momentum below 1");
  if (by.momentum_correction) sgd = corrected_momentum(sgd, workers);
  return {sgd.learning_rate, sgd.momentum, by.staleness_aware, by.delay_compensation};
}

LocalSteps worker_part(const TrainingOptions& options) {
  return {options.mitigation.local_steps, options.learning_rate, options.weight_decay};
}

ModelShape shape_for(const Dataset& data) {
  return {.image = static_cast<std::int64_t>(data.train.side), .classes = kClasses};
}

Curve begun_curve(const std::string& source, const TrainingOptions& options, const Dataset& data,
                  const RunUpdates& run) {
  Curve curve{.source = source,
              .model = options.model,
              .dataset = data.name,
              .train_samples = data.train.count(),
              .test_samples = data.test.count(),
              .workers = run.workers,
              .batch = options.batch,
              .learning_rate = options.learning_rate,
              .momentum = options.momentum,
              .weight_decay = options.weight_decay,
              .mitigation = options.mitigation,
              .seed = options.seed,
              .staleness = summarize_staleness(run.updates),
              .updates = run.updates.empty() ? 0 : run.updates.back().version_applied + 1,
              .diverged = false,
              .points = {}};
  curve.mitigation.staleness_bound = run.mitigation.staleness_bound;
  curve.mitigation.backup_workers = run.mitigation.backup_workers;
  curve.mitigation.warmup_rounds = run.mitigation.warmup_rounds;
  return curve;
}

}  // namespace rehearse::inline calibrate
