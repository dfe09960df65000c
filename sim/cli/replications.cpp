#include "cli/replications.hpp"

#include <algorithm>
#include <deque>
#include <thread>

#include "cli/headline_run.hpp"

namespace rehearse {

std::uint64_t median_seed(std::uint64_t first, const std::vector<Seconds>& times) {
  std::vector<Seconds> sorted = times;
  std::ranges::sort(sorted);
  const Seconds median = sorted.at((sorted.size() - 1) / 2);
  return first + static_cast<std::uint64_t>(std::ranges::find(times, median) - times.begin());
}

std::uint64_t typical_seed(const Scenario& scenario, const RunPlan& plan) {
  const std::uint64_t first = plan.schedule.seed;
  if (scenario.run.replications == 1) return first;
  const std::size_t at_a_time = std::max(1U, std::thread::hardware_concurrency());
  std::deque<HeadlineRun> running;
  std::vector<Seconds> times;
  const auto wait_for_one = [&] {
    times.push_back(running.front().result().step_time);
    running.pop_front();
  };
  for (std::uint32_t i = 0; i < scenario.run.replications; ++i) {
    if (running.size() == at_a_time) wait_for_one();
    running.emplace_back([&scenario, &plan, i] {
      Schedule schedule = plan.schedule;
      schedule.seed += i;
      return simulated_headline(scenario, schedule, plan.cluster, plan.fidelity,
                                scenario.comm.get());
    });
  }
  while (!running.empty()) wait_for_one();
  return median_seed(first, times);
}

}  // namespace rehearse
