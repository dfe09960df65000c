#pragma once

#include <optional>
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

/// The time in which threads stand ready without a core, as an error of the step. Two parts of it
/// are independent. A recorded run says how much of its step that was, by the kernel's own count:
/// it is others' use of the machine, and may be none or twice as much at another time; with more
/// threads on a core than recorded it grows by their ratio. Of what is played as waiting on shared
/// cores (`ready`, a share of the step) as much is off as in recorded runs (kReadyError). Where
/// threads are more than the cores on nodes of their own, which share none as played, computing (a
/// share of the step, too) may take as many times as long. Nothing where no run was recorded, or
/// none of it is so.
std::optional<ErrorSource> run_queue_source(const Cluster& cluster, const Headline& best,
                                            double computing, double ready);

/// Half-width of the 90 % interval of ln(time ready without a core), where threads are more than
/// the cores: three and four hosts on two cores (tests/record/hosts, 2026-11-30) stood ready for
/// 105.9, 195.8, 189.5, 133.8 and 114.1 ms a step by /proc/PID/schedstat; 88.4, 174.1, 174.4, 83.9
/// and 92.4 were played.
constexpr double kReadyError = 0.4;

/// Both ends of each: the step is exp(width) times as long or short. Communication comes out at its
/// upper end where it then takes longer than the step.
std::vector<ErrorSource> error_sources(const std::vector<Mechanism>& mechanisms,
                                       const Headline& best);

/// Those of the sources that are none of the mechanisms: both ends were simulated, and the share is
/// 1 of the step's own half-width.
std::vector<Mechanism> simulated_mechanisms(const std::vector<ErrorSource>& sources,
                                            const std::vector<Mechanism>& mechanisms);

}  // namespace rehearse::inline prediction
