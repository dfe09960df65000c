#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/process_group.hpp"
#include "measure/device.hpp"
#include "models/chain.hpp"
#include "train/step_record.hpp"

namespace rehearse::inline calibrate {

/// Makes the optimizer of what one rank updates: all parameters, or its shards.
using OptimizerFactory =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

/// Parts that every strategy trains with. The device must outlive the trainer.
struct TrainerParts {
  Chain chain;
  ProcessGroup group;
  MeasuredDevice* device = nullptr;
  OptimizerFactory optimizer;
};

/// One rank's side of data-parallel training. Construction and each call are collective: all ranks
/// make them in the same order. Weights and buffers begin as rank 0's.
class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  virtual ~Trainer() = default;

  /// Forward and backward of each micro-batch, then one update with the mean gradient over
  /// micro-batches and ranks.
  virtual StepRecord step(const std::vector<Batch>& micro_batches) = 0;

  /// Copies of all parameters, in the chain's order, whole on every rank.
  virtual std::vector<torch::Tensor> whole_parameters() = 0;
  /// Copies of the gradients that the last step updated with.
  virtual std::vector<torch::Tensor> whole_gradients() = 0;
};

}  // namespace rehearse::inline calibrate
