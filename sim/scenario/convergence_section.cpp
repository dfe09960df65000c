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

double share(const Value& value) {
  const double number = value.as_positive_number();
  if (number >= 1) value.fail("expected a share below 1, such as 0.95; got " + value.shown());
  return number;
}

}  // namespace

Convergence read_convergence_section(const Value& value) {
  Map map = value.as_map();
  const FittedCurves fitted = fit_curves(curve_files(map.require("curves")));
  Convergence convergence;
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
  map.finish();
  return convergence;
}

}  // namespace rehearse::inline scenario
