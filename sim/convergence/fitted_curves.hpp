#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convergence/convergence_model.hpp"

namespace rehearse::inline convergence {

/// A model fitted to files of curves.
struct FittedCurves {
  ConvergenceModel model;
  std::string network, dataset;  ///< what all of them trained, by SGD
  std::uint64_t train_samples = 0;
  /// Momentum and rate of most of the runs, fresh: what is asked about where nothing else is said.
  TrainingSetting usual;
};

/// Reads and fits them. InputError where they trained different networks or data, or none of them
/// trained; and as read_curve() and observe() say.
FittedCurves fit_curves(const std::vector<std::filesystem::path>& files);

}  // namespace rehearse::inline convergence
