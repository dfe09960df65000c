#include "convergence/fitted_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "convergence/curve.hpp"

namespace rehearse {
namespace {

std::string subject(const Curve& curve) {
  return fmt::format("{} on {} samples of {}", curve.model, curve.train_samples, curve.dataset);
}

/// The most frequent; of several the least.
double usual_of(const std::vector<Observation>& observations, double TrainingSetting::*option) {
  std::map<double, int> counts;
  for (const Observation& seen : observations) ++counts[seen.setting.*option];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

}  // namespace

FittedCurves fit_curves(const std::vector<std::filesystem::path>& files) {
  std::vector<Observation> observations;
  std::string first;
  FittedCurves fitted;
  for (const std::filesystem::path& file : files) {
    const Curve curve = read_curve(file);
    if (first.empty()) {
      first = subject(curve);
      fitted.network = curve.model;
      fitted.dataset = curve.dataset;
    }
    if (subject(curve) != first) {
      throw InputError(
          fmt::format("{}: error: trained {}; {} trained {}\nremedy: fit curves of one "
                      "network on one data set",
                      file.string(), subject(curve), files.front().string(), first));
    }
    observations.push_back(observe(curve, file.string()));
  }
  fitted.model = fit_convergence(observations);
  fitted.usual = {.staleness = {},
                  .learning_rate = usual_of(observations, &TrainingSetting::learning_rate),
                  .momentum = usual_of(observations, &TrainingSetting::momentum),
                  .samples_per_update = fitted.model.reference_samples,
                  .order_factor = 1};
  return fitted;
}

}  // namespace rehearse
