#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/run_plan.hpp"

namespace rehearse::inline planner {

/// Changes that `--set` makes in the file or question that the plan starts from, so that it becomes
/// the candidate: what the plan itself sets, then what was chosen; keys with values as flow YAML.
std::vector<std::pair<std::string, std::string>> overrides_of(const PreparedPlan& prepared,
                                                              std::size_t candidate);

/// A line for a shell that predicts the candidate alone: "rehearse run base.yaml --set ...".
std::string run_line(const PreparedPlan& prepared, std::size_t candidate);

/// The line that writes what the candidate's framework is launched with: "rehearse export megatron
/// base.yaml --set ..."; empty where its strategy or framework has no such file.
std::string export_line(const PreparedPlan& prepared, std::size_t candidate);

}  // namespace rehearse::inline planner
