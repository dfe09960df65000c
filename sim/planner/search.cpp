#include "planner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "report/common_errors.hpp"

namespace rehearse::inline planner {
namespace {

using Stage = Candidate::Stage;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// "fits with 86 %: "; empty where nobody knows.
std::string odds(const Figures& figures) {
  const double chance = figures.chance_of_fitting.value_or(-1);
  return chance < 0 ? "" : fmt::format("fits with {}: ", chance_words(chance));
}

/// "cost at least 512 USD; the limit is 500 USD"; of the same digits, what is between them.
std::string miss_words(const Constraint& constraint, double value, double limit, bool bound,
                       bool memory_at_least) {
  const bool most = constraint.sense != Constraint::Sense::at_least;
  const std::string shown = format(constraint.metric, value),
                    asked = format(constraint.metric, limit);
  if (constraint.metric == Metric::memory)
    return fmt::format("needs {}{} of {}", memory_at_least ? "at least " : "", shown, asked);
  if (constraint.metric == Metric::gpus) return fmt::format("has {}; at most {}", shown, asked);
  const bool exact = constraint.metric == Metric::global_batch;
  const std::string beyond =
      shown == asked ? fmt::format("{:.1g} % beyond the limit", 100 * std::abs(value / limit - 1))
                     : fmt::format("the limit is {}", asked);
  return fmt::format("{} {}{}; {}", info(constraint.metric).name,
                     !bound || exact ? ""
                     : most          ? "at least "
                                     : "at most ",
                     shown, beyond);
}

Miss unknown_miss(const Constraint& constraint, const Bound& bound) {
  const auto why = bound.unknown.find(constraint.metric);
  return {.constraint = constraint.name,
          .metric = constraint.metric,
          .value = {},
          .limit = constraint.limit_at(bound.capacity),
          .words = fmt::format("{} is not known: {}", info(constraint.metric).name,
                               why == bound.unknown.end() ? "the report has none" : why->second)};
}

Miss objective_miss(const Candidate& candidate, const Candidate& best, Metric metric) {
  const double least = candidate.bound.best.at(metric).value;
  const double reached = best.figures->at(metric).value;
  return {.constraint = "objective",
          .metric = metric,
          .value = least,
          .limit = reached,
          .words = fmt::format("{} at {} {}; {} is reached", info(metric).name,
                               info(metric).more_is_better ? "most" : "least",
                               format(metric, least), format(metric, reached))};
}

/// Whether nothing that the interval of the first may hold is as good as anything in the second's.
bool surely_worse(const Estimate<double>& first, const Estimate<double>& second, Metric metric) {
  return best_end(metric, first) > worst_end(metric, second);
}

bool surely_worse(const Figures& first, const Figures& second, const Objective& objective) {
  return std::ranges::all_of(objective.metrics, [&](Metric metric) {
    return first.contains(metric) && surely_worse(first.at(metric), second.at(metric), metric);
  });
}

/// Of equals the one whose interval reaches further, so that whoever may be tied with either stays.
bool is_better(const Estimate<double>& a, const Estimate<double>& b, Metric metric) {
  const double first = badness(metric, a.value), second = badness(metric, b.value);
  return first < second || (first == second && worst_end(metric, a) > worst_end(metric, b));
}

class Search {
 public:
  Search(std::vector<Candidate>& candidates, const SearchTask& task)
      : candidates_(candidates), task_(task) {}

  void run() {
    for (Candidate& candidate : candidates_) check_bound(candidate);
    order_by_promise();
    for (;;) {
      const std::vector<std::size_t> wave = next_wave();
      if (wave.empty()) break;
      take(wave);
    }
    for (Candidate& candidate : candidates_) {
      if (candidate.stage == Stage::open) dismiss(candidate);
    }
  }

  /// Figures, and what they mean.
  void take(const std::vector<std::size_t>& wave) {
    std::vector<Simulated> results = task_.simulate(wave);
    for (std::size_t i = 0; i < wave.size(); ++i) {
      take(candidates_[wave[i]], std::move(results.at(i)));
    }
  }

 private:
  void check_bound(Candidate& candidate) const {
    candidate.error = candidate.bound.error;
    if (!candidate.error.empty()) {
      candidate.stage = Stage::error;
    } else if (task_.prune) {
      candidate.misses = misses_of(candidate.bound.best, candidate.bound, task_.constraints, true);
      add_unknown_objectives(candidate);
      if (!candidate.misses.empty()) candidate.stage = Stage::bound;
    }
  }

  void order_by_promise() {
    std::vector<double> promises;
    for (const Candidate& one : candidates_) promises.push_back(promise(one, task_.objective));
    order_.resize(candidates_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return promises[i]; });
  }

  std::vector<std::size_t> next_wave() const {
    std::vector<std::size_t> wave;
    std::size_t open = 0;
    for (const std::size_t i : order_) {
      if (candidates_[i].stage != Stage::open || (task_.prune && beaten_by(candidates_[i])))
        continue;
      ++open;
      if (wave.size() < task_.wave) wave.push_back(i);
    }
    if (task_.open) task_.open(open);
    return wave;
  }

  /// Of one objective only the best found counts, whose interval decides who is tied with it.
  const Candidate* beaten_by(const Candidate& candidate) const {
    const auto beats = [&](std::size_t i) {
      return surely_worse(candidate.bound.best, *candidates_[i].figures, task_.objective);
    };
    if (task_.objective.metrics.size() == 1) {
      return best_ && beats(*best_) ? &candidates_[*best_] : nullptr;
    }
    const auto found = std::ranges::find_if(feasible_, beats);
    return found == feasible_.end() ? nullptr : &candidates_[*found];
  }

  void take(Candidate& candidate, Simulated result) {
    if (result.too_large) return dismiss_as_too_large(candidate, *result.figures);
    candidate.figures = std::move(result.figures);
    candidate.parts = std::move(result.parts);
    candidate.stage_parts = std::move(result.stage_parts);
    candidate.loss_shifts = std::move(result.loss_shifts);
    candidate.kind = std::move(result.kind);
    candidate.misses.clear();
    if (!candidate.figures) {
      candidate.stage = Stage::error;
      candidate.error = std::move(result.error);
      return;
    }
    Figures& figures = *candidate.figures;
    for (const Metric metric : {Metric::gpus, Metric::global_batch}) {
      if (const auto exact = candidate.bound.best.find(metric);
          exact != candidate.bound.best.end()) {
        figures[metric] = exact->second;
      }
    }
    candidate.misses = misses_of(figures, candidate.bound, task_.constraints, false);
    add_unknown_objectives(candidate);
    candidate.stage = candidate.misses.empty() ? Stage::feasible : Stage::simulated;
    if (candidate.stage != Stage::feasible) return;
    note_risks(candidate);
    note_feasible(static_cast<std::size_t>(&candidate - candidates_.data()));
  }

  /// Its memory was looked at more closely.
  void dismiss_as_too_large(Candidate& candidate, const Figures& least) const {
    candidate.bound.best[Metric::memory] = least.at(Metric::memory);
    candidate.misses = misses_of(candidate.bound.best, candidate.bound, task_.constraints, true);
    candidate.stage = Stage::bound;
  }

  /// Before a simulation: those that no simulation will tell.
  void add_unknown_objectives(Candidate& candidate) const {
    for (const Metric metric : task_.objective.metrics) {
      const bool known = candidate.figures ? candidate.figures->contains(metric)
                                           : !candidate.bound.unknown.contains(metric);
      if (known) continue;
      candidate.misses.push_back(
          unknown_miss({.name = "objective", .metric = metric}, candidate.bound));
    }
  }

  void note_risks(Candidate& candidate) const {
    for (const Constraint& constraint : task_.constraints) {
      const Estimate<double>& figure = candidate.figures->at(constraint.metric);
      const bool most = constraint.sense != Constraint::Sense::at_least;
      const double end = most ? figure.high : figure.low;
      if (constraint.holds(end, candidate.bound.capacity)) continue;
      const bool of_memory = constraint.sense == Constraint::Sense::fits;
      candidate.at_risk.push_back(
          fmt::format("{}{} may be {} (90 % interval); the limit is {}",
                      of_memory ? odds(*candidate.figures) : "", info(constraint.metric).name,
                      format(constraint.metric, end),
                      format(constraint.metric, constraint.limit_at(candidate.bound.capacity))));
    }
  }

  void note_feasible(std::size_t i) {
    feasible_.push_back(i);
    const Metric first = task_.objective.metrics.front();
    const auto figure = [&](std::size_t k) { return candidates_[k].figures->at(first); };
    if (!best_ || is_better(figure(i), figure(*best_), first)) best_ = i;
  }

  void dismiss(Candidate& candidate) const {
    const Candidate* best = beaten_by(candidate);
    candidate.stage = Stage::bound;
    for (const Metric metric : task_.objective.metrics) {
      candidate.misses.push_back(objective_miss(candidate, *best, metric));
    }
  }

  std::vector<Candidate>& candidates_;
  const SearchTask& task_;
  std::vector<std::size_t> order_, feasible_;
  std::optional<std::size_t> best_;
};

}  // namespace

double Miss::excess() const {
  if (!value) return kInfinite;
  const bool more = info(metric).more_is_better;
  // A batch may be too small as well as too large.
  const double ratio = more ? limit / *value : *value / limit;
  return metric == Metric::global_batch ? std::max(ratio, 1 / ratio) : ratio;
}

void search(std::vector<Candidate>& candidates, const SearchTask& task) {
  Search(candidates, task).run();
}

void probe(std::vector<Candidate>& candidates, const std::vector<std::size_t>& which,
           const SearchTask& task) {
  if (!which.empty()) Search(candidates, task).take(which);
}

double promise(const Candidate& candidate, const Objective& objective) {
  double sum = 0;
  for (const Metric metric : objective.metrics) {
    const auto best = candidate.bound.best.find(metric);
    if (best == candidate.bound.best.end() || best->second.value <= 0) return -kInfinite;
    const double logarithm = std::log(best->second.value);
    sum += info(metric).more_is_better ? -logarithm : logarithm;
  }
  return sum;
}

std::vector<Miss> misses_of(const Figures& figures, const Bound& bound,
                            const std::vector<Constraint>& constraints, bool bounds) {
  std::vector<Miss> misses;
  for (const Constraint& constraint : constraints) {
    const auto found = figures.find(constraint.metric);
    if (found == figures.end()) {
      if (!bounds || bound.unknown.contains(constraint.metric)) {
        misses.push_back(unknown_miss(constraint, bound));
      }
      continue;
    }
    const double value = found->second.value;
    const bool in_pieces = constraint.sense == Constraint::Sense::fits && bound.in_pieces;
    const double limit = constraint.limit_at(bound.capacity);
    if (!in_pieces && constraint.holds(value, bound.capacity)) {
      const auto chance =
          constraint.chance > 0 && !bounds ? figures.chance_of_fitting : std::nullopt;
      if (!chance || *chance >= constraint.chance) continue;
      misses.push_back({.constraint = constraint.name,
                        .metric = constraint.metric,
                        .value = value,
                        .limit = limit,
                        .words = fmt::format("fits with {}; the plan asks for {:g} %",
                                             chance_words(*chance), 100 * constraint.chance)});
      continue;
    }
    misses.push_back(
        {.constraint = constraint.name,
         .metric = constraint.metric,
         .value = value,
         .limit = limit,
         .words = miss_words(constraint, value, limit, bounds, bound.memory_at_least && bounds) +
                  (in_pieces ? ", but in pieces that are too small" : "")});
  }
  return misses;
}

}  // namespace rehearse::inline planner
