#pragma once

#include <vector>

#include "planner/plan.hpp"

namespace rehearse::inline planner {

/// Reads `constraints`; without any, memory must fit. InputError at the place.
std::vector<Constraint> read_constraints(const std::optional<Value>& value);

/// Reads `objective`.
Objective read_objective(const Value& value);

}  // namespace rehearse::inline planner
