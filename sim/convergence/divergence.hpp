#pragma once

#include <vector>

namespace rehearse::inline convergence {

/// Whether a run failed to train (Observation::failed) at its stability index.
struct TrainingOutcome {
  double index = 0;
  bool failed = false;
};

/// How likely a run fails, by its stability index r: 1 / (1 + exp(-ln(r / edge) / width)), with
/// edge and width weighed over a grid by how likely they make the outcomes seen, and by what is
/// known before any is: an edge about 0.6 times or over, a width about 0.12 (real networks fail
/// before the quadratic's edge at 1, from one seed to the next at another index). As few outcomes
/// leave many edges possible, so does the probability.
class DivergenceOdds {
 public:
  explicit DivergenceOdds(const std::vector<TrainingOutcome>& outcomes);
  double probability(double index) const;
  /// ln of how likely the outcomes are, all edges and widths considered.
  double log_evidence() const { return log_evidence_; }
  /// The index at which it is `probability`.
  double index_at(double probability) const;

 private:
  struct Guess {
    double log_edge, width, weight;
  };
  std::vector<Guess> guesses_;
  double log_evidence_ = 0;
};

}  // namespace rehearse::inline convergence
