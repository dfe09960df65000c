#pragma once

#include <string>
#include <vector>

#include "validation/compare.hpp"

namespace rehearse::inline validation {

/// How predictions order cases that a choice is made among (ValidationCase::rivals), by step time
/// or by rate. Those that are held out and have a prediction.
struct RankingSummary {
  std::string rivals;
  std::size_t cases = 0;
  double tau = 0;  ///< kendall_tau_b of predicted and measured
  /// Cost of the case that is predicted to be the best over the best one measured: a share of its
  /// time.
  double regret = 0;
  std::string first, best;  ///< these two cases
  /// Pairs of cases that measured more than kClear apart, and those that predictions order alike.
  std::size_t pairs = 0, right_pairs = 0;
};

/// Two measured times are told apart where they differ by this: 5 %.
inline constexpr double kClear = 0.05;

/// Summaries in the order of their first case; sets of two rivals and more.
std::vector<RankingSummary> summarize_rankings(const Validation& validation);

/// Kendall's rank correlation with ties (Kendall 1945): (concordant - discordant) pairs over the
/// geometric mean of the pairs that do not tie on either side. 0 where all do.
double kendall_tau_b(const std::vector<double>& left, const std::vector<double>& right);

}  // namespace rehearse::inline validation
