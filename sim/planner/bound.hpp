#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "planner/metric.hpp"

namespace rehearse::inline planner {

/// Facts about a candidate before it is simulated.
struct Bound {
  std::string key;  ///< its content's
  /// Why it cannot be read or scheduled; empty: it can.
  std::string error;
  ExitCode code = ExitCode::success;
  /// The best that it can reach: `value` the best estimate, `low` and `high` both the best end that
  /// its 90 % interval can have. What is known exactly (memory, GPUs, global batch) is all three. A
  /// metric that is not there is not bounded.
  Figures best;
  /// Metrics that it will not tell, and why: "no train.epochs".
  std::map<Metric, std::string> unknown;
  double capacity = 0;           ///< the GPU's memory, in bytes; 0: not known
  bool memory_at_least = false;  ///< its need is bounded, not known
  bool in_pieces = false;        ///< memory would suffice, but only in pieces that are too small
  std::string machine;           ///< the cluster's name, by which prices are told apart
  double node_price = 0;         ///< USD per hour of one node; 0: none, or nodes differ
  /// Which prices those are: "aws_p5 55.04 USD a node and hour, on demand, ...".
  std::vector<std::string> prices{};
};

/// As text, between processes.
nlohmann::json to_json(const Bound& bound);
Bound bound_from(const nlohmann::json& json);

}  // namespace rehearse::inline planner
