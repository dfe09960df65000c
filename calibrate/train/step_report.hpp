#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/parameter_server.hpp"
#include "train/step_detail.hpp"

namespace rehearse::inline calibrate {

/// Record of one rank's measured steps.
struct RankSteps {
  int rank = 0;
  std::vector<Seconds> steps;
  Seconds waited;        ///< in the median step: for collectives, or for the servers' parameters
  Bytes sent, received;  ///< over the network, per step
  std::vector<Bytes> allocated_peaks;  ///< of tensors, in every step, those to warm up included
  StepMemory memory;                   ///< of the last step
  double last_loss = 0;
  std::map<std::uint64_t, double> losses;  ///< of a worker on real data, by iteration
  StepDetail detail;
  std::string device, allocator, libtorch;
  int host_threads = 1;
};
/// The most of any step.
Bytes allocated_peak(const RankSteps& rank);
std::string to_json(const RankSteps& rank);
RankSteps rank_steps_from_json(const std::string& text);

/// Text that one server sends to the process that started it.
std::string to_json(const ServerResult& result);
ServerResult server_result_from_json(const std::string& text);

/// How the steps were asked for.
struct StepRequest {
  std::string strategy, model, command, date;
  std::string precision = "fp32", optimizer = "sgd";
  std::uint64_t seed = 1;
  int ranks = 1, nodes = 1;       ///< ranks that train; nodes, the servers' own included
  bool dedicated_server = false;  ///< the servers have a node of their own
  std::int64_t batch = 1;
  int steps = 0, warmup = 0;
};

/// The report `rehearse.step/1`, a line for each key and each rank. Where ranks step together, a
/// step takes as long as its slowest rank, and `step_time_s` is the distribution of those. Workers
/// of a bounded or asynchronous server, or with backup workers, step on their own, and all their
/// steps count, up to the first worker's last update: those who are left have the server to
/// themselves. Of updates the same ones count: after their worker's `warmup_steps`, while all
/// train. What the parts of a step held is told of the first rank.
std::string step_report(const StepRequest& request, const std::vector<RankSteps>& ranks,
                        const std::vector<ServerResult>& servers);

}  // namespace rehearse::inline calibrate
