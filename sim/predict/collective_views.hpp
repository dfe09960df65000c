#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "collective/collective_cost.hpp"

namespace rehearse::inline prediction {

/// Prediction of a collective over all GPUs of a cluster, as nccl-tests would print it.
struct PredictedCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string cluster;
  std::string curves;  ///< that answer, where the cluster has some
  std::size_t ranks = 0, nodes = 0;
  std::vector<CollectiveAnswer> rows;  ///< by size
};

/// Text in nccl-tests' columns, without those of in-place runs and of checks, then what only a
/// prediction has.
std::string to_table(const PredictedCollective& table);
std::string to_csv(const PredictedCollective& table);
/// `rehearse.collective/1`.
std::string to_json(const PredictedCollective& table);
nlohmann::ordered_json collective_schema();

}  // namespace rehearse::inline prediction
