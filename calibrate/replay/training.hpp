#pragma once

#include <cstdint>
#include <string>

#include "convergence/curve.hpp"
#include "convergence/update_file.hpp"
#include "data/dataset.hpp"
#include "model/model.hpp"
#include "server/sgd_parameters.hpp"
#include "train/local_steps.hpp"

namespace rehearse::inline calibrate {

/// Options of the training of real runs and of replays of real data.
struct TrainingOptions {
  std::string model = "small_cnn";
  std::uint64_t batch = 32;  ///< samples of one step of a worker
  double learning_rate = 0.01, momentum = 0, weight_decay = 0;
  Mitigation mitigation{};
  std::uint64_t seed = 1;  ///< of the weights and of the order of samples
};

/// The server's part: its optimizer. Under local SGD it averages where the workers went, or takes
/// the outer optimizer's step with how far they came. InputError where options do not fit together.
SgdOptions server_part(const TrainingOptions& options, std::uint32_t workers);
/// The worker's part.
LocalSteps worker_part(const TrainingOptions& options);

/// The shape in which a network takes the samples of a data set.
ModelShape shape_for(const Dataset& data);

/// The test accuracy up to which nothing is learned: of ten classes 1.5 times what guessing has; of
/// text what a network has that always says the commonest byte.
double untaught_accuracy(const Dataset& data);

/// A curve of which all but the points is known.
Curve begun_curve(const std::string& source, const TrainingOptions& options, const Dataset& data,
                  const RunUpdates& run);

}  // namespace rehearse::inline calibrate
