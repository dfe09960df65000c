#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "planner/run_plan.hpp"

namespace rehearse::inline planner {

/// This program as a plan over layouts needs it. `must_fit`: one whose memory cannot suffice is not
/// played: its first micro-batches alone need more than the GPU has. A layout is played once, for
/// the best estimate; what may be off is asked of the best ones alone (common_errors.hpp).
///
/// Bounds are layout_bound()'s, less the jitter of bound_of. A layout is dismissed where its step
/// takes kNear longer than the best one's by its bound, so that what comes nearer is ranked.
PlanSimulator layout_simulator(bool must_fit);
/// The one that a plan needs: layout_simulator() where it searches layouts, else plan_simulator().
PlanSimulator simulator_for(const Plan& plan);

inline constexpr double kNear = 1.1;

/// The parts of a report's step in seconds, on average over the ranks, and over the stages
/// of a pipeline, where that says more.
std::map<std::string, double> parts_of(const nlohmann::json& report);
std::map<std::string, double> stage_parts_of(const nlohmann::json& report);
/// Candidate::shifts of a report with errors.
std::map<std::string, std::pair<double, double>> shifts_of(const nlohmann::json& report);

}  // namespace rehearse::inline planner
