#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "server/parameter_client.hpp"
#include "train/local_steps.hpp"
#include "train/memory_watch.hpp"

namespace rehearse::inline calibrate {

struct PsWorkerOptions {
  std::vector<Endpoint> servers;
  std::uint32_t worker = 0;
  std::uint64_t iterations = 1;
  Seconds delay{};  ///< added to every step: makes this worker a straggler
  /// The mean of what is added besides, exponentially distributed: a memoryless worker's jitter.
  Seconds jitter{};
  std::uint64_t seed = 1;  ///< of the jitter
  LocalSteps local{};
  Seconds connect_timeout{60};
  Seconds reply_timeout{300};
  MemoryWatch* memory = nullptr;  ///< told where steps begin and end, of pulls and of pushes
};

/// One step as the worker saw it; its parts add up to the whole.
struct PsStep {
  std::uint64_t iteration = 0;
  Seconds pull;     ///< wait and transfer of the parameters, copied into the network
  Seconds compute;  ///< forward and backward
  Seconds push;     ///< gradients gathered and handed to the network
  Seconds total() const { return pull + compute + push; }
  StepMemory memory = {};  ///< where it was watched
};

struct PsWorkerResult {
  std::vector<PsStep> steps;
  std::vector<double> losses;
  Bytes sent, received;
};

/// Forward and backward of an iteration's batch, which leave the parameters' gradients; gives the
/// loss. Of local SGD, of its batches counted through.
using IterationGradients = std::function<double(std::uint64_t iteration)>;

/// Trains with a parameter server: pull, forward and backward, push, until `iterations` are done.
/// Worker 0's `parameters` are the initial ones; afterwards all hold what was pulled last. They are
/// all float or all double (InputError otherwise), on one device. Buffers, such as the running
/// means of batch norms, stay each worker's own. A parameter that the loss does not reach counts as
/// 0.
PsWorkerResult train_with_server(const std::vector<torch::Tensor>& parameters,
                                 const IterationGradients& gradients,
                                 const PsWorkerOptions& options);

}  // namespace rehearse::inline calibrate
