#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/run_plan.hpp"

namespace rehearse::inline planner {

/// Says first what to take, its figures, and the choices next to it.
std::string plan_answer(const PlanResult& result);

/// Which prices candidates are ranked by, and of which dates: "aws_p5: 55.04 USD a node and hour,
/// on demand, ..."; none where nobody says how long the training is.
std::vector<std::string> prices_of(const PlanResult& result);

/// Ranked candidates that say something new: where machines are compared, the best on each of them
/// and on each number of its GPUs; else those whose figures no better one has.
std::vector<std::size_t> told_candidates(const PlanResult& result);
/// The best of these beside the choice.
std::optional<std::size_t> runner_up(const PlanResult& result);
/// The best of which nothing is at risk; nothing where that is the choice, or none is.
std::optional<std::size_t> without_risk(const PlanResult& result);
/// Among those that come within 10 % of the choice's objective and have nothing at risk, the one
/// that leaves the largest share of its GPU's memory free; nothing where that is the choice.
std::optional<std::size_t> safest(const PlanResult& result);

}  // namespace rehearse::inline planner
