#include "planner/common_errors.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace rehearse::inline planner {
namespace {

using Shift = std::pair<double, double>;

Shift shift_of(const Candidate& candidate, const std::string& source) {
  const auto found = candidate.shifts.find(source);
  return found == candidate.shifts.end() ? Shift{0, 0} : found->second;
}

double square(double x) { return x * x; }

/// Of time over time, or of whatever else is in proportion to it.
Estimate<double> beside(const Candidate& one, const Candidate& choice, Metric metric) {
  std::set<std::string> sources;
  for (const Candidate* each : {&one, &choice})
    for (const auto& [name, shift] : each->shifts) sources.insert(name);
  double below = 0, above = 0;
  for (const std::string& source : sources) {
    const Shift own = shift_of(one, source), other = shift_of(choice, source);
    const double first = own.first - other.first, second = own.second - other.second;
    below += square(std::min({first, second, 0.0}));
    above += square(std::max({first, second, 0.0}));
  }
  const double mine = one.figures->at(metric).value, its = choice.figures->at(metric).value;
  const double ratio = info(metric).more_is_better ? its / mine : mine / its;
  return {ratio, ratio * std::exp(-std::sqrt(below)), ratio * std::exp(std::sqrt(above))};
}

}  // namespace

void compare_under_common_errors(PlanResult& result, const Ask& ask) {
  const Objective& objective = result.prepared.plan.objective;
  if (!result.choice || objective.metrics.size() > 1) return;
  const Metric metric = objective.metrics.front();
  std::vector<Candidate>& candidates = result.prepared.candidates;
  std::vector<Question> questions;
  for (std::size_t place = 0; place < std::min(kCompared, result.ranking.size()); ++place)
    questions.push_back({.candidate = result.ranking[place], .machine = {}, .with_errors = true});
  const std::vector<Simulated> answers = ask(questions);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i].figures) continue;
    Candidate& one = candidates[questions[i].candidate];
    one.shifts = answers[i].shifts;
    for (auto& [which, figure] : *one.figures) {
      const auto found = answers[i].figures->find(which);
      if (found != answers[i].figures->end()) figure = found->second;
    }
    one.beside_choice = beside(one, candidates[*result.choice], metric);
  }
}

}  // namespace rehearse::inline planner
