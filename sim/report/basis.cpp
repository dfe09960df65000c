#include "report/basis.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "report/anatomy.hpp"
#include "report/measures.hpp"
#include "report/run_facts.hpp"
#include "report/update_log.hpp"
#include "schedule/jitter.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse::inline report {
namespace {

Seconds end_of(const std::vector<Seconds>& ends, std::uint32_t iteration) {
  return iteration == 0 ? Seconds(0) : ends[iteration - 1];
}

/// When the last rank had ended each iteration.
std::vector<Seconds> slowest_ends(const Basis& basis) {
  std::vector<Seconds> ends(basis.last);
  for (const RankId rank : basis.workers) {
    const std::vector<Seconds>& own = basis.facts.trace.iteration_end[rank.index()];
    for (std::uint32_t k = 0; k < basis.last; ++k) ends[k] = std::max(ends[k], own[k]);
  }
  return ends;
}

std::vector<Seconds> sorted_steps(const std::vector<Seconds>& ends, const Iterations& which) {
  std::vector<Seconds> steps;
  for (std::uint32_t k = which.first; k < which.last; ++k)
    steps.push_back(ends[k] - end_of(ends, k));
  std::ranges::sort(steps);
  return steps;
}

/// Workers sit out some rounds: their steps say nothing, only the rounds do.
bool is_sampled(const Basis& basis) { return basis.facts.schedule.sampled_ranks > 0; }

/// A parameter server's ranks are never folded, and some GPUs may serve; otherwise every GPU
/// trains.
double training_ranks(const Scenario& scenario, const Schedule& schedule) {
  return has_parameter_server(schedule) ? static_cast<double>(computing_ranks(schedule).size())
                                        : static_cast<double>(scenario.cluster.gpu_count());
}

/// Past the last measured iteration that a worker ended while all trained; at least one counts.
std::uint32_t last_in_common(const Basis& basis, const std::vector<Seconds>& ends) {
  std::uint32_t last = basis.last;
  while (last > basis.first + 1 && ends[last - 1] > basis.common_end) --last;
  return last;
}

/// The iterations that lie in the steady state; of a worker too slow for any, the one at its end.
Iterations within(const SteadyState& steady, const std::vector<Seconds>& ends) {
  const auto first = std::ranges::lower_bound(ends, steady.begin) - ends.begin() + 1;
  const auto last = std::ranges::upper_bound(ends, steady.end) - ends.begin();
  if (first < last) return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)};
  const auto at_end = std::min<std::ptrdiff_t>(last, std::ssize(ends) - 1);
  return {static_cast<std::uint32_t>(at_end), static_cast<std::uint32_t>(at_end + 1)};
}

/// Iterations per second of one worker.
double worker_rate(const Basis& basis, RankId rank) {
  const std::vector<Seconds>& ends = basis.facts.trace.iteration_end[rank.index()];
  const Seconds begin = end_of(ends, basis.first);
  const std::uint32_t last = last_in_common(basis, ends);
  return (last - basis.first) / (ends[last - 1] - begin).value();
}

/// Updates per second of the synchronous form.
double group_update_rate(const Basis& basis) {
  const std::vector<Update>& updates = basis.updates;
  const Seconds begin = basis.first == 0 ? Seconds(0) : updates[basis.first - 1].applied;
  return (basis.last - basis.first) / (updates[basis.last - 1].applied - begin).value();
}

/// Synchronous form: one update per iteration, the servers' own.
bool updates_by_group(const Basis& basis) {
  return basis.updates.size() == basis.last &&
         std::ranges::find(basis.workers, basis.updates.front().worker) == basis.workers.end();
}

/// Gradients that enter an update, per second, times the samples behind each.
double parameter_server_samples_per_s(const Basis& basis) {
  if (updates_by_group(basis))
    return basis.facts.schedule.samples_per_iteration * group_update_rate(basis);

  double rate = 0;
  if (basis.steady)
    for (const double own : basis.steady->rates) rate += own;
  else
    for (const RankId rank : basis.workers) rate += worker_rate(basis, rank);
  const Scenario& scenario = basis.facts.scenario;
  return rate *
         static_cast<double>(scenario.batch_per_gpu * batches_per_iteration(scenario.strategy));
}

/// The staleness of one measured iteration after the other: the mean over its updates.
std::vector<double> staleness_by_iteration(const Basis& basis) {
  std::vector<double> sums(basis.last - basis.first), counts(sums.size());
  for (const Update& update : basis.updates) {
    if (update.iteration < basis.first) continue;
    sums[update.iteration - basis.first] += update.staleness;
    counts[update.iteration - basis.first] += 1;
  }
  std::vector<double> means;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (counts[i] > 0) means.push_back(sums[i] / counts[i]);
  }
  return means;
}

/// One measured step after the other over their mean: of a parameter server's workers, their mean.
std::vector<double> relative_steps(const Basis& basis) {
  std::vector<double> steps(basis.last - basis.first);
  const auto add = [&](const std::vector<Seconds>& ends, double weight) {
    for (std::uint32_t k = basis.first; k < basis.last; ++k)
      steps[k - basis.first] += weight * (ends[k] - end_of(ends, k)).value();
  };
  if (basis.parameter_server && !is_sampled(basis)) {
    const double weight = 1 / static_cast<double>(basis.workers.size());
    for (const RankId rank : basis.workers)
      add(basis.facts.trace.iteration_end[rank.index()], weight);
  } else {
    add(slowest_ends(basis), 1);
  }
  double sum = 0;
  for (const double step : steps) sum += step;
  for (double& step : steps) step *= static_cast<double>(steps.size()) / sum;
  return steps;
}

}  // namespace

Basis basis_of(const RunFacts& facts) {
  const Schedule& schedule = facts.schedule;
  Basis basis{.facts = facts, .workers = computing_ranks(schedule), .updates = {}};
  check(!basis.workers.empty() && schedule.iterations > 0,
        "a report of a run in which nothing is computed");
  basis.last = schedule.iterations;
  basis.first = std::min(facts.scenario.run.warmup_steps, basis.last - 1);
  basis.parameter_server = has_parameter_server(schedule);
  basis.iterations.assign(schedule.ranks.size(), {basis.first, basis.last});
  basis.ranks = training_ranks(facts.scenario, schedule);
  if (!basis.parameter_server) return basis;
  basis.updates = update_log(schedule, facts.trace);
  basis.asynchronous = !updates_by_group(basis);  // else they train in step
  if (!basis.asynchronous) return basis;
  for (const RankId rank : basis.workers)
    basis.common_end =
        std::min(basis.common_end, facts.trace.iteration_end[rank.index()][basis.last - 1]);
  if (!facts.trace.open_ended) return basis;
  basis.steady = steady_state(schedule, facts.trace, basis.workers, basis.updates, basis.first);
  for (const RankId rank : basis.workers)
    basis.iterations[rank.index()] = within(*basis.steady, facts.trace.iteration_end[rank.index()]);
  return basis;
}

bool counts(const Basis& basis, const Update& update) {
  if (basis.steady)
    return update.applied > basis.steady->begin && update.applied <= basis.steady->end;
  return update.iteration >= basis.first && update.applied <= basis.common_end;
}

std::optional<StalenessReport> staleness_of(const Basis& basis) {
  std::optional<StalenessReport> report;
  if (basis.steady) {
    report = staleness_report(basis.steady->histogram);
    report->mean =
        basis.steady->staleness;  // in parts of updates, where the histogram has whole ones
  } else {
    report = staleness_of(basis.updates, basis.first, basis.common_end);
  }
  if (report && basis.asynchronous)
    report->between_push_and_pull = between_push_and_pull(
        basis.updates, [&](const Update& update) { return counts(basis, update); });
  return report;
}

std::vector<std::vector<Seconds>> measured_steps(const Basis& basis) {
  if (!basis.parameter_server || is_sampled(basis))
    return {sorted_steps(slowest_ends(basis), {basis.first, basis.last})};
  std::vector<std::vector<Seconds>> steps;
  for (const RankId rank : basis.workers) {
    const std::vector<Seconds>& ends = basis.facts.trace.iteration_end[rank.index()];
    const Iterations own = basis.steady ? basis.iterations[rank.index()]
                                        : Iterations{basis.first, last_in_common(basis, ends)};
    steps.push_back(sorted_steps(ends, own));
  }
  return steps;
}

Seconds mean_of(const std::vector<Seconds>& steps) {
  Seconds sum(0);
  for (const Seconds step : steps) sum += step;
  return sum / static_cast<double>(steps.size());
}

Seconds step_time(const std::vector<std::vector<Seconds>>& steps) {
  Seconds sum(0);
  for (const std::vector<Seconds>& own : steps) sum += mean_of(own);
  return sum / static_cast<double>(steps.size());
}

Seconds batch_time(const Basis& basis, double samples_per_s) {
  return Seconds(basis.facts.schedule.samples_per_iteration / samples_per_s);
}

double samples_per_s(const Basis& basis, Seconds step_time) {
  return basis.parameter_server ? parameter_server_samples_per_s(basis)
                                : basis.facts.schedule.samples_per_iteration / step_time.value();
}

Sampling sampling_of(const Basis& basis) {
  const Schedule& schedule = basis.facts.schedule;
  if (basis.steady)
    return {.step = std::numbers::sqrt2 * basis.steady->rate_error,
            .staleness = std::numbers::sqrt2 * basis.steady->staleness_error};
  if (schedule.jitter.distribution == Jitter::Distribution::none) return {};
  return {.step = mean_error(relative_steps(basis), compute_variation(schedule)),
          .staleness = mean_error(staleness_by_iteration(basis))};
}

Headline headline(const RunFacts& facts) {
  const Basis basis = basis_of(facts);
  Headline result;
  const Seconds own = step_time(measured_steps(basis));
  result.samples_per_s = samples_per_s(basis, own);
  result.step_time = basis.parameter_server ? batch_time(basis, result.samples_per_s) : own;
  if (basis.asynchronous) result.worker_step_time = own;
  if (const auto staleness = staleness_of(basis)) result.staleness = staleness->mean;
  return result;
}

}  // namespace rehearse::inline report
