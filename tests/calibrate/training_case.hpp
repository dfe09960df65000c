#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/trainer.hpp"

namespace rehearse {

/// A short training in float64, over several ranks and by one process on the concatenated batch.
struct TrainingCase {
  int ranks = 2;
  int steps = 5;
  int micro_batches = 1;
  bool adam = false;         ///< else SGD with momentum
  bool transformer = false;  ///< with a tied weight; else a convolutional network
  /// Negative control: each rank is in a group of its own, so that nothing is reduced.
  bool alone = false;
  std::function<std::unique_ptr<Trainer>(TrainerParts)> make;
};

/// What came out; differences are the largest of any element.
struct TrainingOutcome {
  double parameters_off = 0;                  ///< from one process's, after the last step
  double gradients_off = 0;                   ///< the same of the last step's gradients
  double gradients_unequal = 0;               ///< between ranks
  std::vector<std::int64_t> tensor_elements;  ///< of each parameter, in the chain's order
  std::vector<std::int64_t> unit_elements;    ///< of each unit that has parameters
  double received_per_step = 0;  ///< bytes over rank 0's sockets, by the kernel's count
  StepRecord last;               ///< rank 0's last step, without the collectives' names
};

TrainingOutcome train(const TrainingCase& one);

}  // namespace rehearse
