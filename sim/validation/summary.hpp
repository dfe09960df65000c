#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convergence/run_ends.hpp"
#include "validation/compare.hpp"
#include "validation/ranking.hpp"

namespace rehearse::inline validation {

/// How many intervals hold what was measured, of all that there are.
struct Coverage {
  std::size_t inside = 0, intervals = 0;
};

/// Absolute errors of the cases of a group that are held out and have a prediction: relative ones,
/// or of the staleness's mean, in updates.
struct ErrorSummary {
  std::string group;
  std::string strategy;  ///< "all" for the line over the strategies of a group with several
  std::size_t cases = 0;
  double mean = 0, median = 0, p90 = 0, max = 0;
  Coverage coverage = {};
  std::optional<double> largest_distance = {};  ///< of staleness's distributions
};

/// How well one replay or forecast knew the accuracy of the runs of a group that are held out, in
/// points.
struct AccuracySummary {
  std::string group, by;
  std::size_t runs = 0;      ///< that trained, as it said
  double mean = 0, max = 0;  ///< of the absolute errors of single runs
  /// The largest error of a mean over the runs of one setting, which differ by their seed alone,
  /// and of which; of a forecast, that of the mean that it says.
  double worst_setting = 0;
  std::string setting;
  Coverage coverage = {};  ///< of where the runs end
  Coverage points = {};    ///< of all points of their curves
  std::size_t right = 0, verdicts = 0;
};

/// The runs that are held out of which forecasts gave the same verdict, and what became of them.
/// Odds that are right, of runs that are independent, let `expected` of them fail, the sum of their
/// probabilities p, with a standard deviation of sqrt(sum p (1 - p)). (Reliability: Murphy 1973.)
struct FailureSummary {
  std::string verdict;
  std::size_t runs = 0;
  double expected = 0, deviation = 0;
  std::size_t failed = 0;
};

/// How the runs of one kind end, as shares of the test samples.
struct EndsSummary {
  MeanEnd all, trained;
  Share failed = {};
};

/// The real runs of a setting beside all replays of their simulations: near the edge of what trains
/// one replay is one draw of a wide distribution, and what can be compared are distributions. The
/// replays of one run are a cluster: they have its weights and samples.
struct SettingSummary {
  std::string group, setting;
  EndsSummary real = {}, replays = {};
  double same_failures = 1;  ///< fisher_exact() of the shares that fail
  /// Real ends between the least and the most of their own replays, where these are several, and
  /// how many there would be if each real run were one more of its replays.
  Coverage within = {};
  double expected_within = 0;
};

/// Whether runs fit into their GPUs' memory: as they did, and as predictions say.
struct FitSummary {
  std::string set;                           ///< of cases
  std::size_t fit_right = 0, fit_wrong = 0;  ///< that ran
  std::size_t oom_right = 0, oom_wrong = 0;  ///< that ran out of memory

  /// F1 scores of what fits, and of what does not.
  double f1_fits() const;
  double f1_oom() const;
};

/// Runs that were said to fit with a probability within these ends, and how many did.
struct FitBin {
  Ends<double> said = {};
  std::size_t runs = 0;
  double expected = 0;  ///< the sum of the probabilities
  std::size_t fit = 0;
};

/// Groups, and strategies (or who says so) in them, in the order of their first case.
struct Summary {
  std::vector<ErrorSummary> relative;
  std::vector<ErrorSummary> staleness;
  std::vector<AccuracySummary> accuracy;
  std::vector<FailureSummary> failures;
  std::vector<SettingSummary> settings;
  std::vector<RankingSummary> rankings;
  std::vector<FitSummary> fits;
  std::vector<FitBin> reliability;
  Coverage coverage;  ///< over all of them
  std::size_t failed = 0;
};
Summary summarize(const Validation& validation);

/// ErrorBounds on what is held out; those that are not set hold.
struct ErrorBounds {
  std::optional<double> mean;       ///< of the relative errors of each group, as a share
  std::optional<double> max;        ///< of each relative error
  std::optional<double> staleness;  ///< of each mean staleness's difference, in updates
  std::optional<double> distance;   ///< of each distribution of staleness
  /// Bound on each setting's mean error of accuracy, in points; then no verdict may be wrong
  /// either.
  std::optional<double> accuracy = {};
};

/// Cases without a prediction.
std::size_t failed_cases(const Validation& validation);

/// Summaries of accuracy alone.
std::vector<AccuracySummary> summarize_accuracy(const Validation& validation);

/// Summaries of each set that has cases which say whether they fit.
std::vector<FitSummary> summarize_fits(const Validation& validation);

/// Rows of all sets by the chance that was said: under 5 %, to 50 %, to 95 %, over it.
std::vector<FitBin> reliability_of_fits(const Validation& validation);

/// Verdicts that forecasts gave, the likeliest to train first.
std::vector<FailureSummary> summarize_failures(const Validation& validation);

/// Settings that have replays of simulations, in the order of their first case.
std::vector<SettingSummary> summarize_settings(const Validation& validation);

/// A line for each number of an input that lies outside its own 90 % interval, where these are more
/// than chance has in 99 of 100 cases: the model no longer says what was chosen by it.
std::vector<std::string> inputs_outside(const Validation& validation);

/// A line for each group, setting and case that is beyond a bound.
std::vector<std::string> beyond(const Validation& validation, const ErrorBounds& bounds);
/// What the bounds are on that nothing held out has, "mean staleness": they would hold of nothing.
std::vector<std::string> without_numbers(const Validation& validation, const ErrorBounds& bounds);

}  // namespace rehearse::inline validation
