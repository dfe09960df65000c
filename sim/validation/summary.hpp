#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validation/compare.hpp"

namespace rehearse {

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
  double mean = 0, median = 0, max = 0;
  Coverage coverage = {};
  std::optional<double> largest_distance = {};  ///< of staleness's distributions
};

/// Groups, and strategies in them, in the order of their first case.
struct Summary {
  std::vector<ErrorSummary> relative;
  std::vector<ErrorSummary> staleness;
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
};

/// A line for each group and each case that is beyond a bound.
std::vector<std::string> beyond(const Validation& validation, const ErrorBounds& bounds);

}  // namespace rehearse
