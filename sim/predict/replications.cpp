#include "predict/replications.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/child_pool.hpp"
#include "predict/headline_run.hpp"

namespace rehearse::inline prediction {
namespace {

/// Of the replications from one to before another, in their order.
std::vector<Seconds> step_times(const Scenario& scenario, const Machine& machine,
                                std::uint32_t from, std::uint32_t to) {
  const std::size_t at_a_time = jobs_or_cores();
  std::deque<HeadlineRun> running;
  std::vector<Seconds> times;
  const auto wait_for_one = [&] {
    const Headline figures = running.front().result();
    times.push_back(figures.worker_step_time.value_or(figures.step_time));
    running.pop_front();
  };
  for (std::uint32_t i = from; i < to; ++i) {
    if (running.size() == at_a_time) wait_for_one();
    running.emplace_back([&scenario, &machine, i] {
      Machine replication = machine;
      replication.schedule.seed += i;
      return simulated_headline(scenario, replication);
    });
  }
  while (!running.empty()) wait_for_one();
  return times;
}

}  // namespace

std::uint64_t median_seed(std::uint64_t first, const std::vector<Seconds>& times) {
  std::vector<Seconds> sorted = times;
  std::ranges::sort(sorted);
  const Seconds median = sorted.at((sorted.size() - 1) / 2);
  return first + static_cast<std::uint64_t>(std::ranges::find(times, median) - times.begin());
}

double median_error(std::vector<Seconds> times) {
  constexpr double kOutside = 0.1;
  const std::size_t n = times.size();
  std::size_t inner = 0;  // of k - 1 throws with heads, and of less
  double throws = std::pow(0.5, static_cast<double>(n));
  for (double less = throws; 2 * less <= kOutside; less += throws) {
    throws *= static_cast<double>(n - inner) / static_cast<double>(inner + 1);
    ++inner;
  }
  if (inner == 0) return std::numeric_limits<double>::infinity();
  std::ranges::sort(times);
  return (times[n - inner] - times[inner - 1]) / times[(n - 1) / 2] / 2;
}

TypicalRun typical_run(const Scenario& scenario, const Machine& machine) {
  const std::uint64_t first = machine.schedule.seed;
  const Replications& asked = scenario.run.replications;
  if (!asked.several()) return {.seed = first};
  std::vector<Seconds> times = step_times(scenario, machine, 0, asked.at_least);
  while (times.size() < asked.at_most && median_error(times) > asked.precision) {
    const auto done = static_cast<std::uint32_t>(times.size());
    const std::vector<Seconds> more =
        step_times(scenario, machine, done, std::min(2 * done + 1, asked.at_most));
    times.insert(times.end(), more.begin(), more.end());
  }
  const double error = median_error(times);
  return {.seed = median_seed(first, times),
          .of = static_cast<std::uint32_t>(times.size()),
          .error = std::isfinite(error) ? std::optional(error) : std::nullopt};
}

}  // namespace rehearse::inline prediction
