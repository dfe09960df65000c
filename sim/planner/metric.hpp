#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/ends.hpp"

namespace rehearse::inline planner {

/// Figures that a plan compares and constrains.
enum class Metric {
  step_time,
  train_time,
  samples_per_s,
  usd,
  energy,
  co2,
  memory,
  accuracy,
  gpus,
  global_batch
};

/// How a metric is called and which way is better.
struct MetricInfo {
  Metric metric;
  std::string key;    ///< in JSON and CSV, with its unit: "train_time_s"
  std::string name;   ///< for people: "time to train"
  std::string unit;   ///< "s", "USD", "samples/s"; empty for counts and shares
  std::string worse;  ///< word for a larger value (a smaller one, where more is better): "slower"
  std::string better;
  bool more_is_better = false;
};
/// In the order in which views list them.
const std::vector<MetricInfo>& metrics();
const MetricInfo& info(Metric metric);
/// A value with its unit: "8 h 12 min", "412 USD".
std::string format(Metric metric, double value);

/// An unknown figure is not there; the ends of an exact one are its value.
struct Figures : std::map<Metric, Estimate<double>> {
  using std::map<Metric, Estimate<double>>::map;
  /// It is what `run` says (probability_of_fitting); nothing where it is not known.
  std::optional<double> chance_of_fitting{};
};

/// Less is better: the value itself, or its negative where more is better.
double badness(Metric metric, double value);
/// The interval's best and worst ends, as badness.
double best_end(Metric metric, const Estimate<double>& figure);
double worst_end(Metric metric, const Estimate<double>& figure);

/// Reads a `rehearse.report/1`. Where failures are reckoned with, the time is the expected one.
/// Memory is all that is taken of the GPU: reserved, context and communicators, and its ends are
/// those of the bytes needed, which decide the verdict (memory_fit). GPUs and the global
/// batch are none of it: they are known before.
Figures figures_of(const nlohmann::json& report);

}  // namespace rehearse::inline planner
