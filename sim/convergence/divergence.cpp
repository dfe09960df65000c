#include "convergence/divergence.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::inline convergence {
namespace {

constexpr double kEdge = 0.6;
constexpr double kEdgeDeviation = 0.4;  // of its logarithm
constexpr double kWidth = 0.12;
constexpr double kWidthDeviation = 0.5;  // of its logarithm
constexpr int kEdges = 81;
constexpr int kWidths = 11;
constexpr double kDeviations = 3;  // that the grid reaches to either side

/// The chance that one of these runs fails, whatever the index: no seed is so bad that it refutes
/// an edge all by itself.
constexpr double kAccident = 0.005;

double odds(double log_index, double log_edge, double width) {
  const double sure = 1 / (1 + std::exp(-(log_index - log_edge) / width));
  return kAccident + (1 - 2 * kAccident) * sure;
}

/// From -1 to 1.
double across(int i, int count) { return 2.0 * i / (count - 1) - 1; }

double log_of(double index) { return std::log(std::max(index, 1e-12)); }

/// How far above the middle the grid of edges reaches, in deviations: beyond what a run trained
/// with, too. (Networks with normalization bear rates far above a quadratic's edge.)
double highest_edge(const std::vector<TrainingOutcome>& outcomes) {
  constexpr double kBeyond = 2;
  double most = kDeviations;
  for (const TrainingOutcome& outcome : outcomes)
    if (!outcome.failed)
      most = std::max(most, (log_of(kBeyond * outcome.index) - std::log(kEdge)) / kEdgeDeviation);
  return most;
}

}  // namespace

DivergenceOdds::DivergenceOdds(const std::vector<TrainingOutcome>& outcomes) {
  double most = -1e300;
  double prior = 0;  // the sum of its weights
  const double highest = highest_edge(outcomes);
  for (int i = 0; i < kEdges; ++i) {
    for (int j = 0; j < kWidths; ++j) {
      const double edge_off = std::lerp(-kDeviations, highest, (1 + across(i, kEdges)) / 2);
      const double width_off = kDeviations * across(j, kWidths);
      Guess guess{.log_edge = std::log(kEdge) + kEdgeDeviation * edge_off,
                  .width = kWidth * std::exp(kWidthDeviation * width_off),
                  .weight = -0.5 * (edge_off * edge_off + width_off * width_off)};
      prior += std::exp(guess.weight);
      for (const TrainingOutcome& outcome : outcomes) {
        const double failing = odds(log_of(outcome.index), guess.log_edge, guess.width);
        guess.weight += std::log(outcome.failed ? failing : 1 - failing);
      }
      most = std::max(most, guess.weight);
      guesses_.push_back(guess);
    }
  }
  double sum = 0;
  for (Guess& guess : guesses_) sum += guess.weight = std::exp(guess.weight - most);
  for (Guess& guess : guesses_) guess.weight /= sum;
  log_evidence_ = most + std::log(sum / prior);
}

double DivergenceOdds::probability(double index) const {
  double sum = 0;
  for (const Guess& guess : guesses_)
    sum += guess.weight / (1 + std::exp(-(log_of(index) - guess.log_edge) / guess.width));
  return sum;
}

double DivergenceOdds::index_at(double wanted) const {
  double low = 1e-6;
  double high = 1e3;
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (probability(middle) < wanted ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

}  // namespace rehearse::inline convergence
