#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "config/record_set.hpp"
#include "convergence/fitted_curves.hpp"
#include "scenario/sections.hpp"

namespace rehearse::inline scenario {
namespace {

std::vector<std::filesystem::path> curve_files(const Value& list) {
  std::vector<std::filesystem::path> files;
  for (const Value& value : list.as_list()) {
    files.push_back(value.folder() / value.as_string());
    if (!is_input_file(files.back()))
      value.fail(
          "there is no file \"" + files.back().string() + "\"",
          remedy_for_missing(files.back(), "rehearse-calibrate replay --output FILE writes one"));
  }
  if (files.empty()) list.fail("expected the files of some curves");
  return files;
}

/// In what the curves may have trained something else than the scenario does.
const std::vector<std::string> kDifferences = {"network", "data", "optimizer"};

std::vector<std::string> accepted_differences(Map& map) {
  std::vector<std::string> accepted;
  if (const auto list = map.optional("accept"))
    for (const Value& one : list->as_list()) accepted.push_back(one.as_choice(kDifferences));
  return accepted;
}

/// Whether an optimizer is the curves' kind, which is SGD.
bool is_sgd(const Optimizer& optimizer) {
  return optimizer.kind == OptimizerKind::sgd || optimizer.kind == OptimizerKind::sgd_momentum;
}

/// What a network learns says nothing of how another one does, or the same from other data.
void check_same_training(const Value& curves, const FittedCurves& fitted,
                         const std::vector<std::string>& accepted, const Scenario& scenario) {
  const auto check = [&](const char* what, bool same, const std::string& words) {
    if (same || std::ranges::count(accepted, what) > 0) return;
    curves.fail(words, fmt::format("give curves of this training, or, knowing that they speak for "
                                   "it: accept: [{}]",
                                   what));
  };
  check("network", scenario.model.name == fitted.network,
        fmt::format("the curves are of {} on {}, and the model is {}", fitted.network,
                    fitted.dataset, scenario.model.name));
  check("optimizer", is_sgd(scenario.optimizer),
        fmt::format("the curves were trained by SGD, and the optimizer is {}",
                    to_string(scenario.optimizer.kind)));
  const auto samples = scenario.train.samples_per_epoch;
  check("data", !samples || static_cast<std::uint64_t>(*samples) == fitted.train_samples,
        fmt::format("the curves are of {} samples of {}, and an epoch has {}", fitted.train_samples,
                    fitted.dataset, samples.value_or(0)));
}

double share(const Value& value) {
  const double number = value.as_positive_number();
  if (number >= 1) value.fail("expected a share below 1, such as 0.95; got " + value.shown());
  return number;
}

/// `[{after: 0.5, times: 0.1}, ...]`
std::vector<RateChange> read_rates(const Value& value) {
  std::vector<RateChange> rates;
  for (const Value& one : value.as_list()) {
    Map map = one.as_map();
    rates.push_back({share(map.require("after")), map.require("times").as_positive_number()});
    map.finish();
    const std::size_t count = rates.size();
    if (count > 1 && rates[count - 1].after <= rates[count - 2].after)
      one.fail("expected changes in the order of the training");
  }
  return rates;
}

}  // namespace

Convergence read_convergence_section(const Value& value, const Scenario* scenario) {
  Map map = value.as_map();
  const Value curves = map.require("curves");
  const FittedCurves fitted = fit_curves(curve_files(curves));
  const std::vector<std::string> accepted = accepted_differences(map);
  if (scenario != nullptr) check_same_training(curves, fitted, accepted, *scenario);
  Convergence convergence;
  convergence.network = fitted.network;
  convergence.dataset = fitted.dataset;
  convergence.model = std::make_shared<const ConvergenceModel>(fitted.model);
  const double rate = fitted.usual.learning_rate;
  convergence.learning_rate = map.positive_number_or("learning_rate", rate);
  convergence.momentum = fitted.usual.momentum;
  if (map.has("momentum")) {
    const Value momentum = map.require("momentum");
    convergence.momentum = momentum.as_number() == 0 ? 0 : share(momentum);
  } else {
    map.number_or("momentum", convergence.momentum);
  }
  convergence.mitigation.staleness_aware = map.bool_or("staleness_aware", false);
  convergence.mitigation.momentum_correction = map.bool_or("momentum_correction", false);
  if (const auto compensation = map.optional("delay_compensation"))
    convergence.mitigation.delay_compensation = compensation->as_non_negative_number();
  if (const auto target = map.optional("to_accuracy")) convergence.target = share(*target);
  if (const auto rates = map.optional("rates")) convergence.rates = read_rates(*rates);
  map.finish();
  return convergence;
}

}  // namespace rehearse::inline scenario
