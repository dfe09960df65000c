#pragma once

#include <string>

#include "planner/run_plan.hpp"

namespace rehearse {

/// "7 % faster", "1.9 times the cost", "the same cost".
std::string compared(Metric metric, double value, double reference);

/// A feasible candidate beside another one: the objective first, then time and money where known:
/// "7 % faster, 1.9 times the cost".
std::string compared(const Candidate& candidate, const Candidate& reference,
                     const Objective& objective);

/// The main figures: "412.00 USD, 8 h 12 min".
std::string figures_text(const Candidate& candidate, const Objective& objective);

/// Why a candidate was rejected, all of it.
std::string rejection_text(const Candidate& candidate);

}  // namespace rehearse
