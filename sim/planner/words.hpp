#pragma once

#include <string>

#include "planner/run_plan.hpp"

namespace rehearse::inline planner {

/// "7 % faster", "1.9 times the cost", "the same cost".
std::string compared(Metric metric, double value, double reference);

/// A feasible candidate beside another one: the objective first, then time and money where known:
/// "7 % faster, 1.9 times the cost".
std::string compared(const Candidate& candidate, const Candidate& reference,
                     const Objective& objective);

/// The main figures: "412 USD, 8 h 12 min".
std::string figures_text(const Candidate& candidate, const Objective& objective);

/// That feasible candidates train with different global batches, so that equal samples need not
/// train as well; empty where they do not, or where the plan constrains the global batch.
std::string batches_warning(const PlanResult& result);
/// Whether feasible candidates differ in their global batch.
bool batches_differ(const PlanResult& result);

/// The parts that a layout's step has more of than another's, and less of: "a step has 1.20 s more
/// bubbles, 310 ms less computing"; empty where that is not known.
std::string parts_compared(const Candidate& candidate, const Candidate& reference);

/// Layouts that no candidate is, by the rule that they break first: "312 layouts: 140
/// tensor_parallel does not divide 8 ..."; empty: none.
std::string illegal_text(const Plan& plan);

/// Why a candidate was rejected, all of it.
std::string rejection_text(const Candidate& candidate);

}  // namespace rehearse::inline planner
