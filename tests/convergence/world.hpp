#pragma once

#include <boost/random/normal_distribution.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "convergence/forecast.hpp"

namespace rehearse {

inline constexpr double kUntrained = 0.9;
inline constexpr double kRunSpread = 0.05;    // of ln(error) from run to run
inline constexpr double kPointSpread = 0.05;  // and along a run
/// Of delay compensation, per lambda and samples of an update.
inline constexpr double kStrength = 16;

/// A world whose runs are as the model says, with these parameters and a noise of the curvature
/// of 1.
struct World {
  LearningCurve curve;
  double edge = 0.6;  ///< index from which runs fail

  World() {
    curve << std::log(0.03), std::log(8), 0.8, std::log(0.3), 1.5, 1.6, 0, 0.5, 0, std::log(0.1),
        std::log(2), 0, 0, 0.5, 1, std::log(3);
  }

  StabilityIndices indices(const TrainingSetting& setting) const {
    ConvergenceModel model{.fitted = {.curve = curve, .covariance = {}},
                           .spreads = {},
                           .compensation = {},
                           .odds = DivergenceOdds({}),
                           .domain = {}};
    model.curvature_noise = 1;
    model.reference_samples = setting.samples_per_update;
    const double part = kStrength * setting.delay_compensation / setting.samples_per_update;
    return stability_indices(model, setting, part);
  }
  double index(const TrainingSetting& setting) const { return indices(setting).failing; }
  double log_error(const TrainingSetting& setting, double updates) const {
    return log_error(setting, indices(setting), updates);
  }
  double log_error(const TrainingSetting& setting, const StabilityIndices& at,
                   double updates) const {
    const CurvePlace place =
        place_of(setting, at.slowing, updates, setting.samples_per_update, kUntrained);
    return rehearse::log_error(curve, place).value;
  }
  Observation run(const TrainingSetting& setting, std::uint64_t seed) const {
    RandomStream stream = random_stream(seed, "world");
    boost::random::normal_distribution<double> normal;
    Observation seen{
        .setting = setting, .points = {}, .updates = 2000, .initial_error = kUntrained};
    const StabilityIndices at = indices(setting);
    const double spread = 1 + 4 * at.failing;
    const double off = kRunSpread * spread * normal(stream);
    for (double updates = 20; updates < 2000; updates *= 1.9) {
      const double noise = off + kPointSpread * spread * normal(stream);
      seen.points.push_back({updates, std::exp(log_error(setting, at, updates) + noise)});
    }
    seen.failed = at.failing > edge;
    return seen;
  }
};

inline TrainingSetting setting_of(double staleness, double rate) {
  return {nearly_constant_staleness(staleness), rate, 0, 32};
}

inline constexpr double kRates[] = {0.02, 0.05, 0.1, 0.2, 0.4};

inline std::vector<Observation> runs_of(const World& world, const std::vector<double>& staleness,
                                        std::uint64_t seed) {
  std::vector<Observation> runs;
  for (const double mean : staleness)
    for (const double rate : kRates)
      for (int repeat = 0; repeat < 3; ++repeat)
        runs.push_back(world.run(setting_of(mean, rate), seed++));
  return runs;
}

}  // namespace rehearse
