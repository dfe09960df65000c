#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "launch/rank_environment.hpp"
#include "server/socket.hpp"
#include "train/step_report.hpp"

namespace rehearse {

struct StepRunOptions {
  std::string strategy = "ddp";  ///< ddp, fsdp, or ps-... for a worker of a parameter server
  std::string model;
  std::int64_t image = 0;  ///< pixels per side; 0: the model's own
  std::int64_t batch = 1;  ///< of each rank
  int steps = 10, warmup = 2;
  Seconds delay;                  ///< added to each of this rank's steps
  std::vector<Endpoint> servers;  ///< of a ps- strategy
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< of each wait for another rank
};

/// Real training steps as one of the ranks, on random data: the GPU where there is one, else the
/// CPU with its share of the cores. Call it in the rank's own process.
RankSteps run_steps(const RankEnvironment& self, const StepRunOptions& options);

}  // namespace rehearse
