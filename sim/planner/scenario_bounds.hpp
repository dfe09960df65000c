#pragma once

#include <string>

#include "config/document.hpp"
#include "planner/run_plan.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline planner {

/// A bound on a scenario, from its schedule alone; nothing is simulated, so that
/// one process may ask for many.
///
/// - Memory, GPUs and the global batch are exact: memory is replayed from the schedule.
/// - A lane does one operation after the other, so that no step is shorter than all compute of the
///   busiest lane, communication being free. Samples, the time to train and its price follow.
///   Jitter of a spread cv up to 1 % takes exp(-20 cv) off that.
/// - The interval of a time reaches no further down than exp(-sqrt(u^2 + m^2 + f^2)), u and m the
///   errors of compute costs and of the model, exp(f) the slowest rank's slowdown: with compute at
///   its fast end all is at most exp(u) faster, with any communication no step is shorter than its
///   compute, and with GPUs that are alike it is the typical GPU's.
///
/// Times with more jitter, and those of parameter servers, whose workers are not in step, are not
/// bounded. An error of reading or scheduling becomes the bound's.
Bound bound_of(const Document& scenario, const std::string& program);

/// The same of a layout, without its schedule (layout_bound): memory is at least so much, and the
/// ends of times are kNear below. Times of what layout_bound() does not bound are not bounded.
Bound layout_bound_of(const Document& scenario, const std::string& program);

/// Between nodes: the NICs and the fabric. What a node holds inside stays. Of this job's nodes,
/// those of others, and what they share.
void change_machine(Scenario& scenario, const WhatIf& machine);

/// This program as plans need it.
PlanSimulator plan_simulator();

}  // namespace rehearse::inline planner
