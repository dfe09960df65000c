#include "replay/training.hpp"

#include <fmt/format.h>

#include <variant>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

SgdOptions server_part(const TrainingOptions& options, std::uint32_t workers) {
  const Mitigation& by = options.mitigation;
  if (by.local_steps > 1 || by.outer) {
    const char* option = by.outer ? "--outer-learning-rate" : "--local-steps";
    const auto refuse = [&](const char* why) {
      throw InputError(fmt::format("error: {}: {}\nremedy: leave that out", option, why));
    };
    if (options.momentum != 0) refuse("local SGD is without --momentum here");
    if (by.delay_compensation != 0) refuse("--delay-compensation is for gradients, not for steps");
    if (by.outer && by.momentum_correction)
      refuse("--momentum-correction is for the momentum of gradients");
    SgdOptions sgd{.learning_rate = 1, .staleness_aware = by.staleness_aware};
    if (!by.outer) return sgd;
    sgd.learning_rate = by.outer->learning_rate;
    sgd.momentum = by.outer->momentum;
    sgd.nesterov = by.outer->nesterov;
    return sgd;
  }
  MomentumAndRate sgd{options.momentum, options.learning_rate};
  if (by.momentum_correction && options.momentum >= 1)
    throw InputError("error: --momentum-correction: expected a --momentum below 1");
  if (by.momentum_correction) sgd = corrected_momentum(sgd, workers);
  return {.learning_rate = sgd.learning_rate,
          .momentum = sgd.momentum,
          .staleness_aware = by.staleness_aware,
          .delay_compensation = by.delay_compensation};
}

LocalSteps worker_part(const TrainingOptions& options) {
  return {.steps = options.mitigation.local_steps,
          .learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .pseudo_gradient = options.mitigation.outer.has_value()};
}

ModelShape shape_for(const Dataset& data) {
  if (const auto* text = std::get_if<Text>(&data.train.of))
    return {.sequence = static_cast<std::int64_t>(text->window)};
  const auto& images = std::get<Images>(data.train.of);
  return {.image = static_cast<std::int64_t>(images.side), .classes = kClasses};
}

double untaught_accuracy(const Dataset& data) {
  constexpr double kLikeGuessing = 1.5;
  if (const auto* text = std::get_if<Text>(&data.test.of)) return commonest_share(text->bytes);
  return kLikeGuessing / kClasses;
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
