#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/quantity.hpp"
#include "cluster/power.hpp"

namespace rehearse::inline economy {

/// Power that a GPU draws, as shares of its thermal design power, and what stands around it:
/// `energy`.
struct EnergyOptions {
  double compute = 1;
  /// While it waits for a collective or transfer: its copies and NCCL's kernels run.
  double communication = 0.4;
  double idle = 0.12;
  std::optional<Watts> host{};                ///< of a node beside its GPUs; nothing: host_power
  double pue = 1.1;                           ///< power usage effectiveness of the building
  std::optional<double> grid_gco2_per_kwh{};  ///< grams of CO2 (equivalent)
  std::optional<double> usd_per_kwh{};        ///< on top of the nodes' price
};

/// Fate of a job whose node fails.
enum class OnFailure {
  restart,             ///< within the time that a restart takes the node is replaced
  spare,               ///< a spare takes its place, while there is one
  continue_with_fewer  ///< the job goes on without it until it is repaired (torchrun's elastic)
};

struct CheckpointOptions {
  std::optional<Seconds> interval{};       ///< of training; nothing: the best
  std::optional<Seconds> write{}, read{};  ///< nothing: its bytes over the storage's rate
  /// Rates that all nodes together reach, and that one node reaches; nothing: no limit.
  std::optional<BytesPerSecond> storage{}, storage_per_node{};
  bool asynchronous = false;  ///< training goes on while one is written
};

/// `failures`.
struct FailureOptions {
  std::optional<Seconds> mtbf_per_node{};            ///< nothing: nodes do not fail
  std::optional<Seconds> mean_time_to_preemption{};  ///< of a spot node; nothing: never
  double weibull_shape = 1;  ///< of the times between failures; 1: exponential
  Seconds detect{120}, restart{300};
  OnFailure on_failure = OnFailure::restart;
  int spares = 0;
  Seconds repair{};  ///< until a failed node can be used again
  CheckpointOptions checkpoint;
  std::int64_t trainings = 1000;  ///< that are played
};

/// When nodes are there, from the submission of the job on.
struct Arrivals {
  enum class Kind { exponential, uniform, listed };
  Kind kind = Kind::listed;
  Seconds time{};             ///< the mean (exponential), or the latest (uniform, from 0 on)
  std::vector<Seconds> at{};  ///< listed: of each node with GPUs
};

/// `start`.
struct StartOptions {
  bool elastic = false;  ///< else nothing begins until all are there
  Arrivals arrivals{};
};

}  // namespace rehearse::inline economy
