#pragma once

#include <string>
#include <vector>

#include "collective/collective_cost.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// Names the sources that answered for the collectives of a run: "measured (p4d_a100)", "curve
/// rescaled (p4d_a100)", "links", or several of these.
std::string communication_basis(const Scenario& scenario,
                                const std::vector<CollectiveAnswer>& answers);

/// Why their costs were not measured as they are: other links, ranks, sizes or collectives; links
/// alone; links that nobody stated. One line for collectives that differ in their size alone.
std::vector<std::string> communication_outside(const Scenario& scenario,
                                               const std::vector<CollectiveAnswer>& answers);

}  // namespace rehearse::inline prediction
