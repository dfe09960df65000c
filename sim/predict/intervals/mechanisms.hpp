#pragma once

#include <vector>

#include "cost/cost.hpp"
#include "report/report.hpp"
#include "report/run_facts.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// Whether mechanisms_of() tells where a step's error comes from: of computed costs, where all
/// train in step. Of servers and of measured or given costs both ends are simulated (ShiftedRuns).
bool has_mechanisms(const Schedule& schedule, const std::vector<StepCosts>& costs);

/// Where a step's error comes from: its families of kernels by their ground, exposed communication
/// by its links, idle time, the host, and what nobody said of the machine and its software. A share
/// is d ln(step) / d ln(time of the mechanism). A step is as many times as long as all its times
/// are: the shares of kernels, links and the host come to 1, and idle time is waiting for these.
/// Half-widths are those of platforms/intervals.yaml, where measured rows told them. The widest
/// comes first. Kernels that were measured nowhere have the error that their costs say
/// (StepCosts::outside_error). Steps that were measured on the same machines
/// (Cluster::measured_steps) take what they share with this one from all half-widths but its own.
/// Empty where no rank computes.
std::vector<Mechanism> mechanisms_of(const Scenario& scenario, const RunFacts& facts,
                                     const std::vector<StepCosts>& costs);

/// Both ends of each: the step is exp(width) times as long or short. Communication comes out at its
/// upper end where it then takes longer than the step.
std::vector<ErrorSource> error_sources(const std::vector<Mechanism>& mechanisms,
                                       const Headline& best);

/// Those of the sources that are none of the mechanisms: both ends were simulated, and the share is
/// 1 of the step's own half-width.
std::vector<Mechanism> simulated_mechanisms(const std::vector<ErrorSource>& sources,
                                            const std::vector<Mechanism>& mechanisms);

}  // namespace rehearse::inline prediction
