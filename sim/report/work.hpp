#pragma once

#include "scenario/scenario.hpp"

namespace rehearse::inline report {

/// A training is of one sort, the first of these that it is: rows of the scoreboard and facets sort
/// by it.
enum class WorkKind {
  servers,            ///< a parameter server holds what is trained
  experts,            ///< tokens use a part of the network
  adapters,           ///< less than half of the parameters are trained
  layouts,            ///< ranks share a replica of the model
  one_gpu,            ///< nothing is exchanged
  replicas_in_node,   ///< replicas, whole or sharded, within one node
  replicas_on_nodes,  ///< the same on several nodes
};
constexpr std::size_t kWorks = 7;
const char* to_string(WorkKind work);
WorkKind work_of(const Scenario& scenario);

/// Whether less than half of the parameters are trained.
bool trains_adapters(const Model& model);

}  // namespace rehearse::inline report
