#pragma once

#include <cstdint>
#include <functional>

#include "base/ends.hpp"
#include "economy/options.hpp"

namespace rehearse::inline economy {

/// A training, and all that keeps it from being over sooner.
struct Interruptions {
  Seconds work{};       ///< what the whole training takes where nothing fails or is written
  int nodes = 1;        ///< any of which ends all
  Seconds mean_life{};  ///< of one node; infinite: for ever
  double shape = 1;     ///< Weibull's, of the times between the job's failures
  Seconds detect{}, restart{}, read{}, write{};
  bool asynchronous = false;
  OnFailure on_failure = OnFailure::restart;
  int spares = 0;
  Seconds repair{};
  /// Speed of nodes - 1 nodes over that of all: k of N run at (k/N)^a, with a from this.
  double speed_without_one = 1;
  Seconds shortest_interval{};  ///< between checkpoints: a step

  Seconds recovery() const { return detect + restart + read; }
  /// Mean time between failures of the whole job, while all nodes are there.
  Seconds mean_time_between_failures() const { return mean_life / nodes; }
};

/// Where the time of a training goes: work + slower + checkpoints + lost + recovery + waiting.
struct TrainingTimes {
  Seconds total{};
  Seconds checkpoints{};             ///< waiting for those that came in useful
  Seconds lost{};                    ///< since the last checkpoint before a failure
  Seconds recovery{};                ///< detecting, restarting, reading
  Seconds waiting{};                 ///< for a node that is repaired
  Seconds slower{};                  ///< what fewer nodes took longer
  double failures = 0, written = 0;  ///< how many, of failures and checkpoints
  Seconds node_time{};               ///< of all nodes together, while they belong to the job
};

/// One training. `next` gives the times between failures, in units of their mean: the n-th call
/// that between the n-th and the one before. StuckError where it takes more than `most_failures`.
TrainingTimes play_training(const Interruptions& job, Seconds interval,
                            const std::function<double()>& next, double most_failures);

/// Expected times of a training.
struct Goodput {
  TrainingTimes mean{};
  Ends<Seconds> spread;  ///< of the total: 5th to 95th percentile, by chance of failures alone
  bool exact = false;    ///< the mean is a closed form, not that of the trainings played
};

/// Expected times from so many trainings; the same failures for the same seed. The mean is
/// exact_expectation where there is one. StuckError if the training does not come to its end.
Goodput expect_goodput(const Interruptions& job, Seconds interval, std::int64_t trainings,
                       std::uint64_t seed);

/// True where exact_expectation has a closed form: exponential failures, a node replaced within
/// the restart, training that waits for its checkpoints.
bool has_exact_expectation(const Interruptions& job);
/// The mean over all trainings: with M = mean_time_between_failures, R = recovery (which failures
/// may strike too) and segments of length L_i = interval + write, the last one shorter,
/// T = sum of M exp(R/M) (exp(L_i/M) - 1). J. T. Daly, "A higher order estimate of the optimum
/// checkpoint interval for restart dumps", FGCS 22 (2006), equation 13, is this where all segments
/// are alike.
TrainingTimes exact_expectation(const Interruptions& job, Seconds interval);

/// J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974):
/// sqrt(2 C M).
Seconds young_interval(Seconds write, Seconds mtbf);
/// Daly's higher-order estimate (2006, equation 37): sqrt(2CM) (1 + sqrt(C/2M)/3 + C/18M) - C for
/// C < 2M, else M.
Seconds daly_interval(Seconds write, Seconds mtbf);

/// The interval with the least expected time; `work` where checkpoints help nothing.
Seconds best_interval(const Interruptions& job, std::int64_t trainings, std::uint64_t seed);

}  // namespace rehearse::inline economy
