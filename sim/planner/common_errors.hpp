#pragma once

#include "planner/what_if.hpp"

namespace rehearse::inline planner {

/// Compares the best-ranked with the choice, each source of error (compute, communication, ...)
/// being off by as much for both: layouts of one model on one cluster are mostly off together. Goes
/// down the ranking until one is surely worse, kCompared at the most, and sets their intervals
/// and Candidate::beside_choice. Of one objective only.
///
/// The ratio's logarithm moves at an end of a source by the difference of what both move by.
/// Sources are independent, so that these add in quadrature.
void compare_under_common_errors(PlanResult& result, const Ask& ask);

/// The probability that the choice is better than a candidate; nothing where they are not compared.
std::optional<double> chance_of_choice(const Candidate& candidate);

inline constexpr std::size_t kCompared = 4;

}  // namespace rehearse::inline planner
