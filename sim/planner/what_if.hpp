#pragma once

#include <functional>
#include <vector>

#include "planner/run_plan.hpp"

namespace rehearse::inline planner {

/// A candidate on a machine that is another.
struct Question {
  std::size_t candidate = 0;
  WhatIf machine;
  bool with_errors = false;  ///< PlanSimulator::predict_with_errors of its own machine
};
using Ask = std::function<std::vector<Simulated>(const std::vector<Question>&)>;

/// Asks of the choice, and of the best-ranked that differ from it in each of the plan's axes (at
/// most four), with which bandwidth of the network and which speed of the GPUs another one of them
/// would be better by more than rounding: doubled, halved and so on up to four times, then bisected
/// to about a tenth. Of one objective only. What flips becomes a change, what does not a line of
/// `steady`.
void add_what_ifs(PlanResult& result, const Ask& ask);

}  // namespace rehearse::inline planner
