#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "report/anatomy.hpp"
#include "report/prediction_interval.hpp"
#include "report/report.hpp"
#include "report/run_facts.hpp"
#include "report/steady_state.hpp"
#include "report/update_log.hpp"

namespace rehearse::inline report {

/// Input from which every part of the report is computed.
struct Basis {
  const RunFacts& facts;
  std::uint32_t first = 0, last = 0;  ///< the measured iterations: [first, last)
  std::vector<RankId> workers;        ///< simulated ranks that compute
  double ranks = 0;                   ///< workers of the job, folded ones included
  std::vector<Update> updates;
  bool parameter_server = false;
  bool asynchronous = false;            ///< each worker's gradients are applied on their own
  IterationsByRank iterations{};        ///< measured ones of each rank; mostly [first, last)
  std::optional<SteadyState> steady{};  ///< set for an open-ended run
  /// When the first worker of a parameter server has ended its last iteration: the others have the
  /// server to themselves from then on, so that what comes later counts no more. Infinite where all
  /// train in step.
  Seconds common_end{std::numeric_limits<double>::infinity()};
};

Basis basis_of(const RunFacts& facts);

/// Whether an update counts: of a measured iteration, and while all workers train.
bool counts(const Basis& basis, const Update& update);
/// Staleness of the updates that count; nothing if there are none.
std::optional<StalenessReport> staleness_of(const Basis& basis);
/// Measured steps, each list sorted: one of the whole job, or of a parameter server one of each
/// worker while all train (of one too slow to end any by then, its first).
std::vector<std::vector<Seconds>> measured_steps(const Basis& basis);
Seconds mean_of(const std::vector<Seconds>& steps);
/// The mean of the lists' means, so that totals of many steps follow from it.
Seconds step_time(const std::vector<std::vector<Seconds>>& steps);
double samples_per_s(const Basis& basis, Seconds step_time);
/// Time of one global batch at that rate: the step time of a parameter server's run.
Seconds batch_time(const Basis& basis, double samples_per_s);
/// Error that chance adds to the measured iterations, and in a steady state what its end leaves
/// open; else nothing without jitter, for then every run is the same.
Sampling sampling_of(const Basis& basis);

}  // namespace rehearse::inline report
