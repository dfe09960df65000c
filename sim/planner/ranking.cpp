#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/common_errors.hpp"
#include "planner/search.hpp"
#include "report/common_errors.hpp"

namespace rehearse::inline planner {
namespace {

double value_of(const Candidate& candidate, Metric metric) {
  return badness(metric, candidate.figures->at(metric).value);
}

/// No worse in any objective, and better in one.
bool dominates(const Candidate& a, const Candidate& b, const Objective& objective) {
  bool better = false;
  for (const Metric metric : objective.metrics) {
    if (value_of(a, metric) > value_of(b, metric)) return false;
    better = better || value_of(a, metric) < value_of(b, metric);
  }
  return better;
}

bool surely_dominates(const Candidate& a, const Candidate& b, const Objective& objective) {
  return std::ranges::all_of(objective.metrics, [&](Metric metric) {
    return worst_end(metric, a.figures->at(metric)) < best_end(metric, b.figures->at(metric));
  });
}

bool is_feasible(const Candidate& candidate) {
  return candidate.stage == Candidate::Stage::feasible;
}

double product(const Candidate& candidate, const Objective& objective) {
  double sum = 0;
  for (const Metric metric : objective.metrics) {
    const double logarithm = std::log(candidate.figures->at(metric).value);
    sum += info(metric).more_is_better ? -logarithm : logarithm;
  }
  return sum;
}

}  // namespace

bool on_front(const Candidate& candidate, const std::vector<Candidate>& candidates,
              const Objective& objective) {
  return std::ranges::none_of(candidates, [&](const Candidate& other) {
    return is_feasible(other) && dominates(other, candidate, objective);
  });
}

std::vector<std::size_t> rank(const std::vector<Candidate>& candidates,
                              const Objective& objective) {
  using Place = std::tuple<bool, double, std::size_t, std::size_t>;
  std::vector<Place> places;
  const bool several = objective.metrics.size() > 1;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    if (!is_feasible(one)) continue;
    places.emplace_back(several && !on_front(one, candidates, objective),
                        value_of(one, objective.metrics.front()), one.options, i);
  }
  std::ranges::sort(places);
  std::vector<std::size_t> ranking;
  ranking.reserve(places.size());
  for (const Place& place : places) ranking.push_back(std::get<3>(place));
  return ranking;
}

bool is_tied(const Candidate& candidate, const std::vector<Candidate>& candidates,
             const std::vector<std::size_t>& ranking, const Objective& objective) {
  const bool compared = candidates[ranking.front()].beside_choice.has_value();
  if (compared) return chance_of_choice(candidate).value_or(1) < kSureChance;
  if (objective.metrics.size() == 1) {
    return !surely_dominates(candidates[ranking.front()], candidate, objective);
  }
  return std::ranges::none_of(ranking, [&](std::size_t i) {
    return surely_dominates(candidates[i], candidate, objective);
  });
}

std::optional<std::size_t> choose(const std::vector<Candidate>& candidates,
                                  const std::vector<std::size_t>& ranking,
                                  const Objective& objective) {
  if (ranking.empty()) return std::nullopt;
  if (objective.metrics.size() == 1) return ranking.front();
  return *std::ranges::min_element(
      ranking, {}, [&](std::size_t i) { return product(candidates[i], objective); });
}

}  // namespace rehearse::inline planner
