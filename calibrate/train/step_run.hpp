#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "data/dataset.hpp"
#include "launch/rank_environment.hpp"
#include "model/model.hpp"
#include "server/socket.hpp"
#include "train/ddp.hpp"
#include "train/fsdp.hpp"
#include "train/local_steps.hpp"
#include "train/step_report.hpp"

namespace rehearse::inline calibrate {

struct StepRunOptions {
  std::string strategy = "ddp";  ///< ddp, fsdp, or ps-... for a worker of a parameter server
  std::string model;
  ModelShape shape;  ///< 0: the model's own
  Precision precision = Precision::fp32;
  std::int64_t batch = 1;  ///< of each rank and micro-batch
  int micro_batches = 1;   ///< of each step; the same samples each time
  DdpOptions ddp;
  FsdpOptions fsdp;
  int steps = 10, warmup = 2;
  std::string optimizer = "sgd";  ///< sgd, adam or adamw; a parameter server's is SGD
  /// Learning rate, so small that a batch that is repeated does not change what is measured.
  double learning_rate = 1e-6;
  double momentum = 0;  ///< of sgd
  std::uint64_t seed = 1;
  int threads = 0;  ///< of the host; 0: the rank's share of its cores
  bool cpu = false;
  std::filesystem::path allocations;  ///< rank 0's, from its first tensor on; empty: not kept
  Seconds delay;                      ///< added to each of this rank's steps
  /// Options of a ps- strategy. `jitter`: mean of an exponential delay that is added besides.
  /// `local`: what a worker does between two exchanges. `data`: real data, of which each trains on
  /// its shard (on the CPU).
  Seconds jitter;
  LocalSteps local;
  std::shared_ptr<const Dataset> data;
  std::vector<Endpoint> servers;                                ///< of a ps- strategy
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< of each wait for another rank
  /// Function that is told after each step how many there were, those to warm up included.
  std::function<void(int done)> progress = [](int) {};
};

/// Real training steps as one of the ranks, on random data: the GPU of its number where there is
/// one, else the CPU with its share of the cores. Call it in the rank's own process. InputError
/// where the device cannot compute in that precision, or the ranks cannot share the GPUs.
RankSteps run_steps(const RankEnvironment& self, const StepRunOptions& options);

}  // namespace rehearse::inline calibrate
