#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/parameter_server.hpp"
#include "train/step_detail.hpp"

namespace rehearse {

/// What one rank did in its measured steps.
struct RankSteps {
  int rank = 0;
  std::vector<Seconds> steps;
  Seconds waited;        ///< in the median step: for collectives, or for the servers' parameters
  Bytes sent, received;  ///< over the network, per step
  Bytes allocated_peak;  ///< of tensors
  double last_loss = 0;
  StepDetail detail;
  std::string device, libtorch;
  int host_threads = 1;
};
std::string to_json(const RankSteps& rank);
RankSteps rank_steps_from_json(const std::string& text);

/// What one server says to the process that started it.
std::string to_json(const ServerResult& result);
ServerResult server_result_from_json(const std::string& text);

/// How the steps were asked for.
struct StepRequest {
  std::string strategy, model, command, date;
  std::string precision = "fp32", optimizer = "sgd";
  std::uint64_t seed = 1;
  int ranks = 1, nodes = 1;
  std::int64_t batch = 1;
  int steps = 0, warmup = 0;
};

/// The report `rehearse.step/1`. Where ranks step together, a step takes as long as its slowest
/// rank; workers of a bounded or asynchronous server, or with backup workers, step on their own,
/// and all their steps count.
std::string step_report(const StepRequest& request, const std::vector<RankSteps>& ranks,
                        const std::vector<ServerResult>& servers);

}  // namespace rehearse
