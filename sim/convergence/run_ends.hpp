#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/ends.hpp"
#include "convergence/curve.hpp"

namespace rehearse::inline convergence {

/// How one run ended.
struct RunEnd {
  double accuracy = 0;  ///< share of the test samples
  bool failed = false;  ///< has_failed()
};
/// `trained_error`: see failed_error().
RunEnd end_of(const Curve& curve, double trained_error);

/// Where further runs of the same kind end.
struct FurtherRuns {
  double share = 0;  ///< of them that is expected inside
  Ends<double> ends;
};

/// An interval that holds a further run with 90 %, from the ends of runs like it (exchangeable
/// draws of one continuous distribution), whatever that distribution is: the i-th of M in order has
/// i/(M + 1) of all below it in expectation, so it reaches from position 0.05 (M + 1) to
/// 0.95 (M + 1), linear between neighbours. Fewer than 19 say no more than that (M - 1)/(M + 1) of
/// all lie between the least and the most of them. Nothing of fewer than two.
std::optional<FurtherRuns> further_runs(std::vector<double> ends);

/// A mean of runs and its standard error.
struct MeanEnd {
  std::size_t runs = 0;
  double mean = 0;
  std::optional<double> error = {};  ///< of two clusters or more
};

/// The mean over all runs of all clusters, of which the runs of one need not be independent. With
/// G clusters of N runs in all: error^2 = G/(G - 1) sum over clusters (sum of (x - mean))^2 / N^2,
/// of runs one by one the usual s/sqrt(N) (Liang & Zeger 1986, for a mean).
MeanEnd mean_of_clusters(const std::vector<std::vector<double>>& clusters);

/// Some of all.
struct Share {
  std::size_t some = 0, all = 0;
};

/// How likely shares are to differ at least so much by chance alone where both are of one kind:
/// Fisher's exact test, two-sided (the tables no likelier than this one).
double fisher_exact(const Share& one, const Share& other);

/// "converges", "diverges", or "at the edge: 3 of 8 replays fail".
std::string verdict_of(const Share& failed, const std::string& what);

}  // namespace rehearse::inline convergence
