#pragma once

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "planner/search.hpp"

namespace rehearse {

/// A made-up space: what each candidate's simulation would say, and bounds that hold for it.
struct Space {
  std::vector<Candidate> candidates;
  std::vector<Figures> truth;
  std::vector<Constraint> constraints;
  Objective objective;
};

/// Objectives and constraints over time, cost and memory; bounds from tight to none.
inline Space random_space(std::uint64_t seed, const std::vector<Metric>& objective) {
  RandomStream stream = random_stream(seed, "spaces");
  const auto between = [&](double low, double high) {
    return low + (high - low) * uniform01(stream);
  };
  Space space{.candidates = {}, .truth = {}, .constraints = {}, .objective = {objective}};
  const std::size_t size = 1 + static_cast<std::size_t>(between(0, 60));
  for (std::size_t i = 0; i < size; ++i) {
    Candidate candidate{
        .point = i, .options = static_cast<std::size_t>(between(0, 3)), .bound = {}};
    Figures truth;
    for (const Metric metric : {Metric::train_time, Metric::usd, Metric::samples_per_s}) {
      // Some are equal, so that ties are broken; widths differ, so that a worse one may reach
      // further.
      const double value = uniform01(stream) < 0.3 ? std::round(between(1, 4)) : between(1, 10);
      const double below = std::exp(-between(0, 0.4)), above = std::exp(between(0, 0.4));
      truth[metric] = {value, value * below, value * above};
      if (uniform01(stream) < 0.2) continue;  // not bounded
      const bool more = info(metric).more_is_better;
      const double slack = between(0, 0.5);
      const double best = value * std::exp(more ? slack : -slack);
      const double end = more ? value * above : value * below;
      candidate.bound.best[metric] = {best, end * std::exp(more ? slack : -slack),
                                      end * std::exp(more ? slack : -slack)};
    }
    const double memory = between(10, 100);
    truth[Metric::memory] = {memory, memory * 0.9, memory * 1.1};
    candidate.bound.best[Metric::memory] = {memory, memory, memory};
    candidate.bound.capacity = 80;
    space.candidates.push_back(candidate);
    space.truth.push_back(truth);
  }
  using Sense = Constraint::Sense;
  space.constraints = {{"memory", Metric::memory, Sense::fits, 0},
                       {"deadline", Metric::train_time, Sense::at_most, between(1, 12)},
                       {"budget_usd", Metric::usd, Sense::at_most, between(1, 12)},
                       {"samples_per_s", Metric::samples_per_s, Sense::at_least, between(0, 5)}};
  return space;
}

/// A space after its search.
struct Searched {
  std::vector<Candidate> candidates;
  std::vector<std::size_t> ranking;
  std::set<std::size_t> simulated;
};

inline Searched searched(const Space& space, bool prune, std::size_t wave = 4) {
  Searched result{.candidates = space.candidates, .ranking = {}, .simulated = {}};
  const SearchTask task{.constraints = space.constraints,
                        .objective = space.objective,
                        .simulate =
                            [&](const std::vector<std::size_t>& which) {
                              std::vector<Simulated> all;
                              for (const std::size_t i : which) {
                                result.simulated.insert(i);
                                all.push_back({space.truth[i], ""});
                              }
                              return all;
                            },
                        .wave = wave,
                        .prune = prune};
  search(result.candidates, task);
  result.ranking = rank(result.candidates, space.objective);
  return result;
}

/// Those tied with the best.
inline std::set<std::size_t> tied(const Searched& result, const Objective& objective) {
  std::set<std::size_t> all;
  for (const std::size_t i : result.ranking) {
    if (is_tied(result.candidates[i], result.candidates, result.ranking, objective)) all.insert(i);
  }
  return all;
}

}  // namespace rehearse
