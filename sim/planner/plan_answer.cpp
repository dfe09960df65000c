#include "planner/plan_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/count.hpp"
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

/// Whether the plan's objective or a constraint is of such a figure.
bool asks_for(const Plan& plan, Metric metric) {
  return std::ranges::count(plan.objective.metrics, metric) > 0 ||
         std::ranges::count(plan.constraints, metric, &Constraint::metric) > 0;
}

/// Says what the plan asks for and nobody knows, the length of the training or machines' prices:
/// "dgx_a100 has no price ... ".
std::string unknown_text(const PreparedPlan& prepared) {
  const Plan& plan = prepared.plan;
  const bool money = asks_for(plan, Metric::usd);
  std::set<std::string> machines;
  for (const Candidate& one : prepared.candidates) {
    if (!one.bound.error.empty()) continue;
    if ((money || asks_for(plan, Metric::train_time)) &&
        one.bound.unknown.contains(Metric::train_time))
      return fmt::format(
          "Nobody says how long the training is, and so not its {}: --tokens or "
          "train.tokens says it. ",
          money ? "cost" : "time");
    if (money && one.bound.unknown.contains(Metric::usd)) machines.insert(one.bound.machine);
  }
  if (machines.empty()) return "";
  return fmt::format("{} {} no price, and {} left out: --price says it. ",
                     fmt::join(machines, ", "), machines.size() == 1 ? "has" : "have",
                     machines.size() == 1 ? "is" : "are");
}

/// The share of a GPU's memory that is used; 1 where that is not known.
double memory_share(const Candidate& candidate) {
  const auto memory = candidate.figures->find(Metric::memory);
  if (memory == candidate.figures->end() || candidate.bound.capacity <= 0) return 1;
  return memory->second.value / candidate.bound.capacity;
}

/// At equal loss: whether what methods cost in loss leaves the choice open. Else what the
/// comparison leaves out.
std::string loss_sentence(const PlanResult& result) {
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  std::vector<TrainingKind> kinds;
  for (const std::size_t i : result.ranking) kinds.push_back(candidates[i].kind);
  const double like = candidates[*result.choice].kind.like_tokens;
  if (like <= 0) {
    const std::string left_out = left_out_line(kinds);
    return left_out.empty() ? "" : " " + left_out;
  }
  std::string text = fmt::format(
      " Each is as long as it takes to the loss of {} tokens of plain "
      "training.",
      count_text(like));
  for (const std::size_t i : result.ranking) {
    const auto chance = chance_of_choice(candidates[i]);
    const bool other = candidates[i].kind.method != candidates[*result.choice].kind.method ||
                       candidates[i].kind.batch != candidates[*result.choice].kind.batch;
    if (i == *result.choice || !other || !chance || *chance >= kSureChance) continue;
    return text +
           fmt::format(" Undecided beside {}: a pilot run of both, on {} tokens, would decide.",
                       settings_text(result.prepared, i), count_text(like / 10));
  }
  return text;
}

}  // namespace

std::vector<std::string> prices_of(const PlanResult& result) {
  std::vector<std::string> all;
  for (const Candidate& one : result.prepared.candidates) {
    if (!one.bound.error.empty() || one.bound.unknown.contains(Metric::usd)) continue;
    for (const std::string& price : one.bound.prices) {
      std::string text = fmt::format("{}: {}", one.bound.machine, price);
      if (std::ranges::find(all, text) == all.end()) all.push_back(std::move(text));
    }
  }
  return all;
}

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
    if (!known || i == result.choice || i == without_risk(result)) told.push_back(i);
  }
  return told;
}

std::optional<std::size_t> without_risk(const PlanResult& result) {
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  if (!result.choice || candidates[*result.choice].at_risk.empty()) return std::nullopt;
  const auto safe = std::ranges::find_if(
      result.ranking, [&](std::size_t i) { return candidates[i].at_risk.empty(); });
  return safe == result.ranking.end() ? std::nullopt : std::optional(*safe);
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
    return fmt::format("{}Nothing is feasible among {} candidates.", unknown_text(prepared),
                       all.candidates);
  const Candidate& choice = prepared.candidates[*result.choice];
  const std::vector<std::string>& frameworks = prepared.plan.frameworks;
  std::string text = fmt::format(
      "{}Take {}{}: {}.", unknown_text(prepared), settings_text(prepared, *result.choice),
      frameworks.size() != 1 ? ""
                             : fmt::format(", by {}{}", frameworks.front(),
                                           prepared.plan.framework_assumed ? " (assumed)" : ""),
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
  if (!choice.at_risk.empty()) text += " At risk: " + choice.at_risk.front() + ".";
  const auto sure = without_risk(result), second = runner_up(result);
  beside("Without that risk", sure);
  if (second != sure) beside("Runner-up", second);
  const auto room = safest(result);
  if (room != sure && room != second) beside("Most room in memory", room);
  return text + loss_sentence(result) +
         fmt::format(" {} of {} candidates are feasible.", all.feasible, all.candidates);
}

}  // namespace rehearse::inline planner
