#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "model/model.hpp"
#include "models/chain.hpp"
#include "train/local_steps.hpp"

namespace rehearse::inline calibrate {

struct NetworkOptions {
  std::string model;
  ModelShape shape;
  std::uint64_t seed = 1;  ///< of the weights
};

/// How good parameters are over some samples.
struct Score {
  double loss_sum = 0;  ///< of samples
  std::uint64_t samples = 0;
  std::uint64_t correct = 0, predictions = 0;  ///< one for each sample, or for each of its bytes
};

/// One copy of a network, in fp32 on the CPU, which takes its parameters as the bytes that a server
/// holds. For one thread; every computation is of one thread's, so that its rounding does not
/// depend on how many there are.
class Replica {
 public:
  /// Makes a replica with the weights of the seed, as step_run.hpp's ranks have them. InputError
  /// where parameters and data alone do not say what the network computes: where it has running
  /// statistics (batch norm), which no server holds, or draws random numbers (dropout, stochastic
  /// depth); or where it does not take images, or sequences, as the shape says.
  explicit Replica(const NetworkOptions& options);

  /// The parameters' bytes.
  std::vector<std::byte> values() const;

  struct Sent {
    std::vector<std::byte> gradient;
    double loss = 0;
  };
  /// Message of a worker that read these parameters and then took a step with each of the batches.
  Sent train(const std::vector<std::byte>& parameters, const Dataset& data,
             const std::vector<std::vector<std::uint32_t>>& batches, const LocalSteps& local);

  /// Score over the samples [first, last) of the test set.
  Score score(const std::vector<std::byte>& parameters, const Dataset& data, std::uint32_t first,
              std::uint32_t last);

 private:
  void load(const std::vector<std::byte>& values);

  Chain chain_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace rehearse::inline calibrate
