#include "planner/plan_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/common_errors.hpp"
#include "planner/plan_view.hpp"
#include "planner/words.hpp"
#include "report/common_errors.hpp"

namespace rehearse::inline planner {
namespace {

/// How far the safest may be behind the choice.
constexpr double kNearOfTwo = 1.1;

bool are_alike(const Figures& one, const Figures& other) {
  return std::ranges::equal(one, other, [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.value == b.second.value;
  });
}

/// The share of a GPU's memory that is used; 1 where that is not known.
double memory_share(const Candidate& candidate) {
  const auto memory = candidate.figures->find(Metric::memory);
  if (memory == candidate.figures->end() || candidate.bound.capacity <= 0) return 1;
  return memory->second.value / candidate.bound.capacity;
}

}  // namespace

std::vector<std::size_t> told_candidates(const PlanResult& result) {
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  const auto place = [&](std::size_t i) {
    const auto gpus = candidates[i].figures->find(Metric::gpus);
    return std::pair(candidates[i].bound.machine,
                     gpus == candidates[i].figures->end() ? 0 : gpus->second.value);
  };
  std::set<std::pair<std::string, double>> places;
  for (const std::size_t i : result.ranking) places.insert(place(i));
  const bool compares = places.size() > 1 && result.prepared.plan.objective.metrics.size() == 1;
  std::vector<std::size_t> told;
  for (const std::size_t i : result.ranking) {
    const bool known = std::ranges::any_of(told, [&](std::size_t before) {
      return compares ? place(before) == place(i)
                      : are_alike(*candidates[before].figures, *candidates[i].figures);
    });
    if (!known || i == result.choice) told.push_back(i);
  }
  return told;
}

std::optional<std::size_t> runner_up(const PlanResult& result) {
  for (const std::size_t i : told_candidates(result))
    if (i != result.choice) return i;
  return std::nullopt;
}

std::optional<std::size_t> safest(const PlanResult& result) {
  if (!result.choice) return std::nullopt;
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  const Metric metric = result.prepared.plan.objective.metrics.front();
  const auto value = [&](std::size_t i) { return candidates[i].figures->at(metric).value; };
  const auto is_near = [&](std::size_t i) {
    const double ratio = value(i) / value(*result.choice);
    return (info(metric).more_is_better ? 1 / ratio : ratio) <= kNearOfTwo;
  };
  std::size_t best = *result.choice;
  for (const std::size_t i : result.ranking) {
    if (!candidates[i].figures->contains(metric) || !candidates[i].at_risk.empty() || !is_near(i))
      continue;
    const bool freer = memory_share(candidates[i]) < memory_share(candidates[best]) - 0.01;
    if (freer || (best == *result.choice && !candidates[best].at_risk.empty())) best = i;
  }
  if (best == *result.choice) return std::nullopt;
  return best;
}

std::string plan_answer(const PlanResult& result) {
  const PreparedPlan& prepared = result.prepared;
  const Objective& objective = prepared.plan.objective;
  const PlanCount all = count(result);
  if (!result.choice)
    return fmt::format("Nothing is feasible among {} candidates.", all.candidates);
  const Candidate& choice = prepared.candidates[*result.choice];
  std::string text = fmt::format("Take {}: {}.", settings_text(prepared, *result.choice),
                                 figures_text(choice, objective));
  const auto beside = [&](const char* name, const std::optional<std::size_t>& other) {
    if (!other) return;
    const Candidate& one = prepared.candidates[*other];
    const auto chance = chance_of_choice(one);
    const std::string sure =
        chance ? fmt::format("; the choice is better with {}", chance_words(*chance)) : "";
    text += fmt::format(" {}: {} ({}{}).", name, settings_text(prepared, *other),
                        compared(one, choice, objective), sure);
  };
  beside("Runner-up", runner_up(result));
  beside("Most room in memory", safest(result));
  if (!choice.at_risk.empty()) text += " At risk: " + choice.at_risk.front() + ".";
  return text + fmt::format(" {} of {} candidates are feasible.", all.feasible, all.candidates);
}

}  // namespace rehearse::inline planner
