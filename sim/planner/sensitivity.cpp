#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/common_errors.hpp"
#include "planner/words.hpp"
#include "report/common_errors.hpp"

namespace rehearse::inline planner {
namespace {

using Stage = Candidate::Stage;

/// Of each constraint, candidates that miss it alone and are simulated to know what it costs.
constexpr std::size_t kProbesPerConstraint = 2;
/// Simulated where nothing is feasible, to know what would be.
constexpr std::size_t kProbesOfNone = 16;

/// Of the constraint that is missed by most.
double excess_of(const Candidate& candidate) {
  double excess = 0;
  for (const Miss& miss : candidate.misses) excess = std::max(excess, miss.excess());
  return excess;
}

class Sensitivity {
 public:
  explicit Sensitivity(const PlanResult& result)
      : result_(result),
        plan_(result.prepared.plan),
        candidates_(result.prepared.candidates),
        metric_(plan_.objective.metrics.front()) {}

  std::vector<Change> run() {
    if (!result_.choice) {
      add_nearest_miss();
      return std::move(changes_);
    }
    if (plan_.objective.metrics.size() > 1) return {};  // the front itself is the answer
    add_margin();
    for (const Constraint& constraint : plan_.constraints) {
      add_looser(constraint);
      add_tighter(constraint);
    }
    if (metric_ == Metric::usd) add_prices();
    return std::move(changes_);
  }

 private:
  const Candidate& choice() const { return candidates_[*result_.choice]; }
  double value(std::size_t i, Metric metric) const {
    return candidates_[i].figures->at(metric).value;
  }
  std::string settings(std::size_t i) const { return settings_text(result_.prepared, i); }

  /// "memory of 142 GiB", "128 GPUs".
  static std::string of(Metric metric, double value) {
    if (metric == Metric::gpus) return format(metric, value);
    return fmt::format("{} of {}", info(metric).name, format(metric, value));
  }

  /// "memory below 142 GiB", "fewer than 128 GPUs".
  static std::string beyond(Metric metric, double value) {
    if (metric == Metric::gpus) return "fewer than " + format(metric, value);
    return fmt::format("{} {} {}", info(metric).name,
                       info(metric).more_is_better ? "above" : "below", format(metric, value));
  }

  void add_margin() {
    if (result_.ranking.size() < 2) return;
    const std::size_t next = result_.ranking[1];
    const double own = value(*result_.choice, metric_), other = value(next, metric_);
    const bool tied = is_tied(candidates_[next], candidates_, result_.ranking, plan_.objective);
    const std::string parts = parts_compared(candidates_[next], choice());
    const std::optional<Estimate<double>>& beside = candidates_[next].beside_choice;
    const std::string interval =
        beside ? fmt::format(
                     " ({:.2f} to {:.2f} times, both being off alike; the choice is better "
                     "with {})",
                     beside->low, beside->high, chance_words(*chance_of_choice(candidates_[next])))
        : tied ? "; their intervals overlap"
               : "";
    changes_.push_back({.what = "runner-up",
                        .from = own,
                        .to = other,
                        .unit = info(metric_).unit,
                        .words = fmt::format("the runner-up, {}, is {}{}{}{}", settings(next),
                                             compared(candidates_[next], choice(), plan_.objective),
                                             interval, parts.empty() ? "" : ": ", parts),
                        .choice = next});
  }

  /// What one constraint alone keeps out although it is better, the nearest first.
  void add_looser(const Constraint& constraint) {
    std::optional<std::size_t> nearest;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      if (one.stage != Stage::simulated || one.misses.size() != 1) continue;
      if (one.misses[0].constraint != constraint.name || !one.misses[0].value) continue;
      if (badness(metric_, value(i, metric_)) >= badness(metric_, value(*result_.choice, metric_)))
        continue;
      if (!nearest || one.misses[0].excess() < candidates_[*nearest].misses[0].excess())
        nearest = i;
    }
    if (!nearest) return;
    const Miss& miss = candidates_[*nearest].misses[0];
    changes_.push_back(
        {.what = constraint.name,
         .from = miss.limit,
         .to = *miss.value,
         .unit = info(constraint.metric).unit,
         .words = fmt::format("with {} instead of {}: {}, {}", of(constraint.metric, *miss.value),
                              format(constraint.metric, miss.limit), settings(*nearest),
                              compared(candidates_[*nearest], choice(), plan_.objective)),
         .choice = *nearest});
  }

  /// Where the choice would miss it, and what would be taken then.
  void add_tighter(const Constraint& constraint) {
    if (constraint.metric == metric_ || constraint.metric == Metric::global_batch) return;
    const double own = value(*result_.choice, constraint.metric);
    const auto next = std::ranges::find_if(result_.ranking, [&](std::size_t i) {
      return badness(constraint.metric, value(i, constraint.metric)) <
             badness(constraint.metric, own);
    });
    const bool none = next == result_.ranking.end();
    const double limit = constraint.limit_at(choice().bound.capacity);
    changes_.push_back(
        {.what = constraint.name,
         .from = limit,
         .to = own,
         .unit = info(constraint.metric).unit,
         .words = fmt::format(
             "with {}: {}", beyond(constraint.metric, own),
             none ? dismissed_below(constraint.metric, own)
                  : fmt::format("{}, {}", settings(*next),
                                compared(candidates_[*next], choice(), plan_.objective))),
         .choice = none ? std::nullopt : std::optional(*next)});
  }

  /// Of the candidates that the objective's bound dismissed, the most promising that keeps to a
  /// limit below `own`, where that is known exactly.
  std::string dismissed_below(Metric metric, double own) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      if (one.stage != Stage::bound || one.misses[0].constraint != "objective") continue;
      const auto exact = one.bound.best.find(metric);
      const bool known =
          metric == Metric::gpus || (metric == Metric::memory && !one.bound.memory_at_least);
      const bool kept = known && exact != one.bound.best.end() && exact->second.value < own;
      if (!kept) continue;
      const auto promising = [&](std::size_t k) {
        return promise(candidates_[k], plan_.objective);
      };
      if (!best || promising(i) < promising(*best)) best = i;
    }
    if (!best) return "no candidate that was found feasible remains";
    return fmt::format("{}, {}", settings(*best), candidates_[*best].misses[0].words);
  }

  /// Cost is in proportion to prices: another machine's best is as cheap at a factor on either.
  void add_prices() {
    std::set<std::string> seen = {choice().bound.machine};
    for (const std::size_t i : result_.ranking) {
      const Bound& other = candidates_[i].bound;
      if (!seen.insert(other.machine).second) continue;
      const double factor = value(i, Metric::usd) / value(*result_.choice, Metric::usd);
      add_price(choice().bound, factor, "rises above", i);
      add_price(other, 1 / factor, "falls below", i);
    }
  }

  void add_price(const Bound& machine, double factor, const std::string& moves, std::size_t i) {
    if (machine.node_price <= 0) return;
    const double price = machine.node_price * factor;
    changes_.push_back(
        {.what = "price of " + machine.machine,
         .from = machine.node_price,
         .to = price,
         .unit = "USD per node-hour",
         .words = fmt::format("if {} {} {:.2f} USD per node-hour (now {:.2f}): {}", machine.machine,
                              moves, price, machine.node_price, settings(i)),
         .choice = i});
  }

  /// The least that the constraints would have to give.
  void add_nearest_miss() {
    std::optional<std::size_t> nearest;
    double least = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      if (one.stage != Stage::simulated) continue;
      const double excess = excess_of(one);
      if (std::isinf(excess) || (nearest && excess >= least)) continue;
      nearest = i;
      least = excess;
    }
    if (!nearest) return;
    for (const Miss& miss : candidates_[*nearest].misses) {
      changes_.push_back(
          {.what = miss.constraint,
           .from = miss.limit,
           .to = *miss.value,
           .unit = info(miss.metric).unit,
           .words = fmt::format("{} instead of {} ({:+.1f} %) would admit {}",
                                of(miss.metric, *miss.value), format(miss.metric, miss.limit),
                                100 * (*miss.value / miss.limit - 1), settings(*nearest)),
           .choice = *nearest});
    }
  }

  const PlanResult& result_;
  const Plan& plan_;
  const std::vector<Candidate>& candidates_;
  Metric metric_;
  std::vector<Change> changes_;
};

/// Candidates that a constraint's bound dismissed, the most promising first.
std::vector<std::size_t> dismissed(const PlanResult& result, bool (*fits)(const Candidate&)) {
  std::vector<std::size_t> found;
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    const bool by_constraint = one.stage == Stage::bound && one.misses[0].constraint != "objective";
    if (by_constraint && one.misses[0].value && fits(one)) found.push_back(i);
  }
  std::ranges::stable_sort(found, {}, [&](std::size_t i) {
    return promise(candidates[i], result.prepared.plan.objective);
  });
  return found;
}

std::vector<std::size_t> probes_of_none(const PlanResult& result) {
  std::vector<std::size_t> found = dismissed(result, [](const Candidate&) { return true; });
  std::ranges::stable_sort(found, {},
                           [&](std::size_t i) { return excess_of(result.prepared.candidates[i]); });
  if (found.size() > kProbesOfNone) found.resize(kProbesOfNone);
  return found;
}

}  // namespace

std::vector<Change> changes(const PlanResult& result) { return Sensitivity(result).run(); }

std::vector<std::size_t> probes(const PlanResult& result) {
  if (!result.choice) return probes_of_none(result);
  const Objective& objective = result.prepared.plan.objective;
  if (objective.metrics.size() > 1) return {};
  const Metric metric = objective.metrics.front();
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  const double reached = badness(metric, candidates[*result.choice].figures->at(metric).value);
  std::vector<std::size_t> chosen;
  std::map<std::string, std::size_t> taken;
  for (const std::size_t i :
       dismissed(result, [](const Candidate& one) { return one.misses.size() == 1; })) {
    const auto best = candidates[i].bound.best.find(metric);
    if (best != candidates[i].bound.best.end() && badness(metric, best->second.value) >= reached)
      continue;
    if (++taken[candidates[i].misses[0].constraint] <= kProbesPerConstraint) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace rehearse::inline planner
