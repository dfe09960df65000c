#include "convergence/fitted_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "convergence/curve.hpp"

namespace rehearse::inline convergence {
namespace {

std::string subject(const Curve& curve) {
  return fmt::format("{} on {} samples of {}", curve.model, curve.train_samples, curve.dataset);
}

/// Momentum and learning rate of most runs; of several the least.
std::pair<double, double> usual_options(const std::vector<Observation>& observations) {
  std::map<std::pair<double, double>, int> counts;
  for (const Observation& seen : observations)
    ++counts[{seen.setting.momentum, seen.setting.learning_rate}];
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

}  // namespace

FittedCurves fit_curves(const std::vector<std::filesystem::path>& files) {
  std::vector<Curve> curves;
  std::string first;
  FittedCurves fitted;
  for (const std::filesystem::path& file : files) {
    const Curve& curve = curves.emplace_back(read_curve(file));
    if (first.empty()) {
      first = subject(curve);
      fitted.network = curve.model;
      fitted.dataset = curve.dataset;
      fitted.train_samples = curve.train_samples;
    }
    if (subject(curve) != first) {
      throw InputError(
          fmt::format("{}: error: trained {}; {} trained {}\nremedy: fit curves of one "
                      "network on one data set",
                      file.string(), subject(curve), files.front().string(), first));
    }
  }
  const double trained_error = least_end_error(curves);
  std::vector<Observation> observations;
  for (std::size_t i = 0; i < curves.size(); ++i)
    observations.push_back(observe(curves[i], files[i].string(), trained_error));
  if (std::ranges::all_of(observations, &Observation::failed)) {
    throw InputError(
        fmt::format("{}: error: diverged, as all of these runs did: there is no curve "
                    "to fit\nremedy: add runs with a smaller learning rate",
                    files.front().string()));
  }
  fitted.model = fit_convergence(observations, trained_error);
  const auto [momentum, rate] = usual_options(observations);
  fitted.usual = {.staleness = {},
                  .learning_rate = rate,
                  .momentum = momentum,
                  .samples_per_update = fitted.model.reference_samples};
  return fitted;
}

}  // namespace rehearse::inline convergence
