#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// The seed of the run with the median step time (the lower of two in the middle; of equal ones the
/// first) among `times`, whose seeds count up from `first`.
std::uint64_t median_seed(std::uint64_t first, const std::vector<Seconds>& times);

/// Half the width of the median's 90 % interval over the median, whatever the times' distribution:
/// from the k-th smallest to the k-th largest of n, with the largest k of which the median lies
/// outside with a probability of at most 0.1, twice that of less than k heads in n throws (David
/// and Nagaraja, Order Statistics, 7.1). Infinite below five times.
double median_error(std::vector<Seconds> times);

/// One run that stands for several.
struct TypicalRun {
  std::uint64_t seed = 1;
  std::uint32_t of = 1;              ///< so many were simulated
  std::optional<double> error = {};  ///< median_error() of their step times, of five and more
};

/// Simulates run.replications of the machine, each in a process of its own beside this one, as many
/// at a time as there are cores, and says which seed's run has the median step time: where the
/// order of messages decides what follows, one run is a draw among unlike ones. Whether the median
/// is known well enough is looked at after `at_least` of them, then after every doubling, so that
/// the answer does not depend on the cores. Of one replication the seed is known. To be asked
/// before this process simulates.
TypicalRun typical_run(const Scenario& scenario, const Machine& machine);

}  // namespace rehearse::inline prediction
