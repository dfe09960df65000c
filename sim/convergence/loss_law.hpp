#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/ends.hpp"

namespace rehearse::inline convergence {

/// The end of a run of a language model: what it was and what it came to.
struct LossRun {
  double parameters = 0, tokens = 0;
  double loss = 0;  ///< nats a token, on one set of data with one tokenizer
};

/// Reads `parameters,tokens,loss` from CSV, in any order of columns; others are left alone. Counts
/// may have suffixes: 150M, 3B. InputError at the line.
std::vector<LossRun> read_loss_runs(const std::filesystem::path& file);

/// Loss by size and length, from a user's own runs alone:
///
///     L(N, D) = E + A / N^alpha + B / D^beta
///
/// (Hoffmann et al., "Training compute-optimal large language models", 2022). E, A, B, alpha and
/// beta are fitted by Huber's loss of ln(loss) (Besiroglu et al. 2024), with alpha and beta held
/// near 0.35 as far as few runs say nothing of them. Without two sizes A is 0, and without two
/// lengths B is.
class LossLaw {
 public:
  /// InputError (without a place) for fewer than four runs, or without two sizes or lengths.
  explicit LossLaw(const std::vector<LossRun>& runs);

  double E() const { return E_; }
  double A() const { return A_; }
  double B() const { return B_; }
  double alpha() const { return alpha_; }
  double beta() const { return beta_; }
  bool by_parameters() const { return A_ > 0; }
  bool by_tokens() const { return B_ > 0; }
  double deviation() const { return deviation_; }  ///< of ln(loss) about the law

  /// 90 % of runs; wider with the ratio of compute (parameters times tokens) to the most that was
  /// run: 3 % at 10 times and 6 % at 100 times, where the runs themselves lie closer.
  Estimate<double> loss(double parameters, double tokens) const;
  /// -dL/d ln D, in nats.
  double slope(double tokens) const;
  /// Compute over the most that was run; below 1 inside.
  double compute_ratio(double parameters, double tokens) const;
  /// Why a question is refused; nothing: it is answered. A size where all runs have one, and more
  /// than 100 times the compute.
  std::optional<std::string> refusal_of(double parameters, double tokens) const;

 private:
  double value(double parameters, double tokens) const;

  double E_ = 0, A_ = 0, B_ = 0, alpha_ = 0.35, beta_ = 0.35, deviation_ = 0;
  double most_compute_ = 0, parameters_ = 0, tokens_ = 0;  ///< the last two: the runs' middle
  double least_parameters_ = std::numeric_limits<double>::infinity();
  double least_tokens_ = std::numeric_limits<double>::infinity();
};

}  // namespace rehearse::inline convergence
