#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {

/// One way to share nodes between a trainer and a generator.
struct RlSplit {
  std::int64_t generator_nodes = 0;  ///< 0: all train and generate in turn
  int tensor_parallel = 1;           ///< of the generator
  StalenessOptions staleness;
};

struct RlPlanRow {
  RlSplit split;
  std::optional<RlReport> report;  ///< nothing: it cannot be
  std::string why;                 ///< then
  double tokens_per_second() const { return report->tokens / report->step.value(); }
};

/// Splits of the same nodes: those that fit by their step, then those that do not, then those that
/// cannot be. One model, one batch, one training layout: what differs is who generates, with how
/// many tensor ranks, and how far it may lag.
struct RlPlan {
  std::string file, network;
  std::int64_t nodes = 0;
  std::vector<RlPlanRow> rows = {};
};

/// The nodes are the scenario's with its generator's own; the generator's tensor ranks 1, 2, 4 ...
/// of a node, of those apart limits 0, 1 and 2 whole, and 0.5, 1 and 2 in flight. A trainer is
/// played once for each number of its nodes.
RlPlan rl_plan(const Document& document,
               const std::function<void(std::size_t done, std::size_t all)>& progress);

std::string to_table(const RlPlan& plan, std::size_t top);
/// `rehearse.rollout_plan/1`.
std::string to_json(const RlPlan& plan);
std::string to_csv(const RlPlan& plan);

}  // namespace rehearse::inline rollout
