#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "foreign/logs/import_log.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {

/// The figures that a log measured, by the report's keys.
struct MeasuredRun {
  double step_time = 0;        ///< seconds; 0: the log does not tell
  std::size_t steps = 0;       ///< entries of the steady part
  double spread = 0;           ///< quartiles apart, over the median
  std::size_t warming_up = 0;  ///< entries before it
  double samples = 0;          ///< of a step, of all GPUs
  double tokens = 0;           ///< of one; 0: none
  std::size_t gpus = 1;
  std::optional<double> tflops_per_gpu, allocated_bytes, reserved_bytes;
};

/// The steady part of a log, as steps of a scenario. InputError where its batch is another.
MeasuredRun measured_run(const TrainingLog& log, const Scenario& scenario);

/// The number that makes a prediction agree with a measured step.
struct SolvedNumber {
  std::string key;                       ///< "cluster.speed"
  std::string value;                     ///< as a file has it
  double factor = 1;                     ///< times the scenario's own
  double before = 0;                     ///< predicted seconds of a step as the scenario is
  double after = 0;                      ///< and with the number
  std::string why;                       ///< why that one: what a step depends on most
  std::map<std::string, double> shares;  ///< of the step's error, for Cluster::measured_steps
  /// The upper end of the step's 90 % interval over the prediction: as it is, and with this step
  /// known.
  double above = 0, above_after = 0;
};

/// Of the GPUs' speed, the rate of the links between nodes, that of NVLink and the host's time for
/// an operator, the one that the predicted step depends on most. `overrides` are the scenario's.
/// `simulated` is called after each simulation with their count. InputError where no value of it
/// within a factor of four makes them agree.
SolvedNumber solve_number(const std::filesystem::path& scenario,
                          const std::vector<std::string>& overrides, double step_time,
                          const std::function<void(std::size_t)>& simulated = {});

/// The kind of machines that a scenario's cluster names; empty where it describes its own.
std::string used_cluster(const Document& scenario);

/// A file of a site: these machines with one number of their own, `key` a cluster's, and the steps
/// that told it (Cluster::measured_steps). A scenario names the file as its cluster's `use`.
std::string site_text(const std::string& cluster, const std::string& key, const std::string& value,
                      const std::vector<std::map<std::string, double>>& measured_steps,
                      const std::string& source);

}  // namespace rehearse::inline foreign
