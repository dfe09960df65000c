#include "scenario/same_training.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::inline scenario {
namespace {

/// Whether an optimizer is the curves' kind, which is SGD.
bool is_sgd(const Optimizer& optimizer) {
  return optimizer.kind == OptimizerKind::sgd || optimizer.kind == OptimizerKind::sgd_momentum;
}

/// Pixels per side of a data set's images (their sources' pages); 0: not known, or no images.
std::int64_t side_of_images(const std::string& dataset) {
  if (dataset == "mnist" || dataset == "fashion-mnist") return 28;
  return dataset == "cifar10" ? 32 : 0;
}

/// Parameters of a built-in network for a data set's images; 0 where they are not known.
std::int64_t parameters_of(const FittedCurves& curves) {
  const std::int64_t side = side_of_images(curves.dataset);
  if (side == 0 || std::ranges::count(architecture_names(), curves.network) == 0) return 0;
  ModelShape shape;
  shape.image = side;
  return build_architecture(curves.network, shape).parameters();
}

/// Empty where the networks are the same.
std::string network_difference(const FittedCurves& curves, const Scenario& scenario) {
  if (scenario.model.name != curves.network)
    return fmt::format("the curves are of {} on {}, and the model is {}", curves.network,
                       curves.dataset, scenario.model.name);
  const std::int64_t parameters = parameters_of(curves);
  if (parameters == 0 || scenario.model.parameters() == parameters) return "";
  return fmt::format(
      "the curves are of {} on {}, which has {} parameters, and the model of this name has {}",
      curves.network, curves.dataset, parameters, scenario.model.parameters());
}

std::string optimizer_difference(const Scenario& scenario) {
  if (is_sgd(scenario.optimizer)) return "";
  return fmt::format("the curves were trained by SGD, and the optimizer is {}",
                     to_string(scenario.optimizer.kind));
}

std::string data_difference(const FittedCurves& curves, const Scenario& scenario) {
  const auto samples = scenario.train.samples_per_epoch;
  if (!samples || static_cast<std::uint64_t>(*samples) == curves.train_samples) return "";
  return fmt::format("the curves are of {} samples of {}, and an epoch has {}",
                     curves.train_samples, curves.dataset, *samples);
}

}  // namespace

const std::vector<std::string>& kinds_of_difference() {
  static const std::vector<std::string> kinds = {"network", "data", "optimizer"};
  return kinds;
}

TrainingMatch match_training(const FittedCurves& curves, const Scenario& scenario) {
  TrainingMatch match;
  const auto add = [&](const char* kind, const std::string& words) {
    if (!words.empty()) match.differences.push_back({kind, words});
  };
  add("network", network_difference(curves, scenario));
  add("optimizer", optimizer_difference(scenario));
  add("data", data_difference(curves, scenario));
  match.subject = fmt::format("{} on {}", curves.network, curves.dataset);
  if (!match.differences.empty()) match.subject += ", accepted for " + scenario.model.name;
  return match;
}

}  // namespace rehearse::inline scenario
