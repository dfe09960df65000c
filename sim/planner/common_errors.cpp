#include "planner/common_errors.hpp"

#include <algorithm>
#include <cmath>

#include "report/common_errors.hpp"
#include "report/training_kind.hpp"

namespace rehearse::inline planner {
namespace {

/// Of time over time, or of whatever else is in proportion to it.
Estimate<double> beside(const Candidate& one, const Candidate& choice, Metric metric) {
  const bool by_length = metric == Metric::train_time || metric == Metric::usd ||
                         metric == Metric::energy || metric == Metric::co2;
  const Ends<double> off = by_length ? together(with(choice.shifts, choice.loss_shifts),
                                                with(one.shifts, one.loss_shifts))
                                     : together(choice.shifts, one.shifts);
  const double mine = one.figures->at(metric).value, its = choice.figures->at(metric).value;
  const double ratio = info(metric).more_is_better ? its / mine : mine / its;
  return {ratio, ratio * std::exp(off.low), ratio * std::exp(off.high)};
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

std::optional<double> chance_of_choice(const Candidate& candidate) {
  if (!candidate.beside_choice) return std::nullopt;
  const Estimate<double>& beside = *candidate.beside_choice;
  return chance_above_one(beside.value, {beside.low, beside.high});
}

}  // namespace rehearse::inline planner
