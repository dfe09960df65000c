#pragma once

#include <Eigen/Core>
#include <vector>

#include "convergence/curve_fit.hpp"
#include "convergence/divergence.hpp"
#include "convergence/learning_curve.hpp"
#include "convergence/observation.hpp"

namespace rehearse {

/// What the observations span; a question outside of it is answered by the formulae alone.
struct FittedDomain {
  double least_rate = 0, most_rate = 0;
  double least_momentum = 0, most_momentum = 0;
  double most_staleness = 0;  ///< mean
  double most_updates = 0;
  double least_samples = 0, most_samples = 0;  ///< per update
  double most_index = 0;                       ///< of the runs that trained
};

/// How one model on one data set converges in any setting, as fitted to some runs.
struct ConvergenceModel {
  LearningCurve curve = learning_curve_prior().mean;
  Eigen::MatrixXd covariance;    ///< of `curve`
  double curvature_noise = 0;    ///< Descent's, at `reference_samples` per update
  double reference_samples = 1;  ///< median of the observations
  double initial_error = 0;      ///< mean of the observations
  Spreads spreads;
  /// How much wider intervals are than these say: what it takes to hold 90 % of the points of
  /// settings that are left out of the fit; at least 1.
  double inflation = 1;
  double held_out_error = 0;  ///< mean |error - forecast| at the end of those runs, in shares
  int settings = 0, runs = 0, failed_runs = 0;
  double least_failed_error = 0;  ///< that a failed run ends with: seen, or by definition
  DivergenceOdds odds{{}};
  FittedDomain domain;
};

/// Fits one to runs of one model on one data set, one of which trained at least.
///
/// Least squares of ln(error) with Huber's loss and learning_curve_prior(); a run counts as three
/// independent points however many it has. Runs that failed say where runs fail and nothing else.
/// The noise of the curvature is chosen from a few values, with the rest, by likelihood.
ConvergenceModel fit_convergence(const std::vector<Observation>& observations);

/// The share of the stability edge that the rate takes up: rate / edge(staleness, momentum, noise
/// of the curvature) / order_factor, in units of 1 / curvature, of which only ratios matter. The
/// noise is the model's, carried over to the setting's batch: inversely proportional to the samples
/// per update.
double stability_index(const ConvergenceModel& model, const TrainingSetting& setting);

}  // namespace rehearse
