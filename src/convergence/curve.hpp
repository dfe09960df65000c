#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "convergence/mitigation.hpp"
#include "convergence/past_staleness.hpp"
#include "convergence/update_log.hpp"

namespace rehearse::inline convergence {

/// How good the parameters are after some updates.
struct CurvePoint {
  std::uint64_t update = 0;   ///< updates applied: the version of the parameters
  Seconds time;               ///< when the last of them was applied, since the run began
  std::uint64_t samples = 0;  ///< whose gradients were applied by then
  /// Mean loss of the batches whose gradients were applied since the point before; nothing at the
  /// first point, and where it is not finite.
  std::optional<double> train_loss{};
  std::optional<double> test_loss{};  ///< mean over the test samples; nothing where not finite
  double test_accuracy = 0;           ///< share of the test samples
  /// Staleness of the updates until then; nothing at the first point, and where the curve's file
  /// has none (those written before it was told).
  std::optional<PastStaleness> staleness{};
};

/// A part of a training whose learning rate and protocol stay as they are.
struct TrainingStretch {
  double samples = 0;        ///< trained when it ends, since the run began
  double learning_rate = 0;  ///< above 0
  double samples_per_update = 1;
  double staleness = 0;  ///< mean
};

/// Loss and accuracy of one training run over time and samples.
struct Curve {
  std::string source;          ///< "replay" of an update log, or "real" run
  std::string model, dataset;  ///< "small_cnn", "mnist"
  std::uint64_t train_samples = 0, test_samples = 0;
  std::uint32_t workers = 1;
  std::uint64_t batch = 1;  ///< samples of one gradient
  double learning_rate = 0, momentum = 0, weight_decay = 0;
  Mitigation mitigation;
  std::uint64_t seed = 1;
  StalenessSummary staleness;  ///< of all updates
  std::uint64_t updates = 0;
  bool diverged = false;
  /// In order, where the rate or the protocol changes; else empty.
  std::vector<TrainingStretch> stretches{};
  std::vector<CurvePoint> points;  ///< in order of updates, the initial parameters first
};

/// Says of each point but the untrained one how stale the updates of `log` were until then.
void add_staleness(const UpdateLog& log, std::vector<CurvePoint>& points);

/// Something in which two curves were trained differently, and what it is in either.
struct TrainingDifference {
  std::string what;  ///< "number of workers"
  std::string one, other;
};

/// The first of them; nothing where at most seed and staleness (its bound, backup workers and
/// warm-up among what makes it) differ.
std::optional<TrainingDifference> training_difference(const Curve& one, const Curve& other);

/// `rehearse.curve/1`, JSON with a line for each point.
std::string to_json(const Curve& curve);

/// Reads one strictly. MissingError where the file cannot be read; InputError `file:line:column:
/// error: ...` otherwise.
Curve read_curve(const std::filesystem::path& file);

}  // namespace rehearse::inline convergence
