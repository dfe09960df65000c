#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/run_plan.hpp"
#include "view/views.hpp"

namespace rehearse::inline planner {

/// `rehearse.plan/1`, in one form for all sizes.
std::string plan_json(const PlanResult& result);
nlohmann::ordered_json plan_result_schema();

/// A row for each candidate: what is ranked by its rank, then the others: `rank`, `tied`, `stage`,
/// `vary.AXIS`, the metrics with the ends of their intervals, and `failed`.
std::string plan_csv(const PlanResult& result);

struct PlanTable {
  std::size_t top = 10;     ///< rows of the ranking
  std::size_t width = 100;  ///< columns of paragraphs; tables are as wide as they are
  bool color = false;
  Detail detail = Detail::all;
};
/// For people: the choice with its reasons, the ranking, what the others failed on, and what would
/// change the answer.
std::string plan_table(const PlanResult& result, const PlanTable& options);

/// Text of `--dry-run`: the candidates with their bounds, and how many these dismiss.
std::string plan_outline(const PreparedPlan& prepared);

/// How many candidates came how far.
struct PlanCount {
  std::size_t candidates = 0, pruned = 0, simulated = 0, failed = 0, feasible = 0;
};
PlanCount count(const PlanResult& result);

}  // namespace rehearse::inline planner
