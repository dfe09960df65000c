#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/error.hpp"
#include "config/record_set.hpp"
#include "scenario/same_training.hpp"
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

std::vector<std::string> accepted_differences(Map& map) {
  std::vector<std::string> accepted;
  if (const auto list = map.optional("accept"))
    for (const Value& one : list->as_list())
      accepted.push_back(one.as_choice(kinds_of_difference()));
  return accepted;
}

/// What a network learns says nothing of how another one does, or the same from other data.
TrainingMatch checked_match(const Value& curves, const FittedCurves& fitted,
                            const std::vector<std::string>& accepted, const Scenario& scenario) {
  TrainingMatch match = match_training(fitted, scenario);
  const std::vector<std::string> refused = match.refused(accepted);
  if (!refused.empty())
    curves.fail(match.words(), fmt::format("give curves of this training, or, knowing that they "
                                           "speak for it: accept: [{}]",
                                           fmt::join(refused, ", ")));
  return match;
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
  Convergence convergence;
  if (scenario != nullptr) convergence.curves = checked_match(curves, fitted, accepted, *scenario);
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
