#pragma once

#include <Eigen/Core>
#include <optional>
#include <vector>

#include "base/ends.hpp"
#include "convergence/curve_fit.hpp"
#include "convergence/divergence.hpp"
#include "convergence/fitted_domain.hpp"
#include "convergence/learning_curve.hpp"
#include "convergence/observation.hpp"
#include "convergence/observed_indices.hpp"

namespace rehearse::inline convergence {

/// How one model on one data set converges in any setting, as fitted to some runs.
struct ConvergenceModel {
  FittedCurve fitted;
  double curvature_noise = 0;    ///< of StabilityIndices::failing, at `reference_samples`
  double reference_samples = 1;  ///< per update; median of the observations
  double initial_error = 0;      ///< mean of the observations
  Spreads spreads;
  /// Delay compensation's strength times samples per update over lambda, where runs had any.
  std::optional<Estimate<double>> compensation;
  /// How much wider intervals are than these say: what it takes to hold 90 % of the points of
  /// settings that are left out of the fit; at least 1.
  double inflation = 1;
  /// Mean |error - forecast| at the end of those runs, in shares; nothing for a fit of one setting,
  /// of which none can be left out.
  std::optional<double> held_out_error = {};
  int settings = 0, runs = 0, failed_runs = 0;
  double trained_error = 0;       ///< end_error() at best; see failed_error()
  double least_failed_error = 0;  ///< that a failed run ends with: seen, or by definition
  DivergenceOdds odds{{}};
  FittedDomain domain;
};

/// Fits one to runs of one model on one data set, one of which trained at least.
///
/// Least squares of ln(error) with Huber's loss and learning_curve_prior(); a run counts as three
/// independent points however many it has. Runs that failed say where runs fail and nothing else.
/// The noise of the curvature is chosen from a few values by how likely it makes which runs failed;
/// where runs had delay compensation, its strength from others by the likelihood of curves and
/// failures, with those that are nearly as likely.
/// `trained_error` is that with which they were observed.
ConvergenceModel fit_convergence(const std::vector<Observation>& observations,
                                 double trained_error = 0);

/// Which part of what a gradient has missed its delay compensation makes up for: Descent's
/// compensation. Its estimate of the Hessian's diagonal is lambda g g. For a loss that is a
/// negative log-likelihood the mean of g g over single samples is the Hessian where the model is
/// right (Fisher's information; Zheng et al. 2017, section 4), and over batches of b samples 1/b of
/// it (what their gradients have in common makes it more): lambda / b. Where no run of the fit had
/// it, that is the value, and anything from nothing to all may be.
Estimate<double> compensation_of(const ConvergenceModel& model, const TrainingSetting& setting);

/// The share of a stability edge that the rate takes up: rate / edge(staleness, momentum, noise of
/// the curvature, compensation) / order_factor, in units of 1 / curvature, of which only ratios
/// matter.
struct StabilityIndices {
  /// With the model's noise, carried over to the setting's batch: inversely proportional to the
  /// samples per update. Where runs fail.
  double failing = 0;
  Slowing slowing;
};
StabilityIndices stability_indices(const ConvergenceModel& model, const TrainingSetting& setting,
                                   double compensation = 0);

}  // namespace rehearse::inline convergence
