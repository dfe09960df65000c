#include "predict/server_updates.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "report/report.hpp"
#include "report/update_log.hpp"

namespace rehearse::inline prediction {
namespace {

/// When all parts of a worker's gradient had come, and whose it is.
using Arrival = std::pair<Seconds, std::uint32_t>;

/// The workers' numbers, by rank: those that exchange with the servers count.
std::vector<std::uint32_t> worker_numbers(const Schedule& schedule) {
  std::vector<std::uint32_t> numbers;
  std::uint32_t next = 0;
  for (const RankSpec& rank : schedule.ranks) {
    const auto& ops = schedule.programs[rank.program.index()].ops;
    const bool reads = std::ranges::find(ops, UpdateRole::read_parameters, &Op::role) != ops.end();
    numbers.push_back(reads ? next++ : next);
  }
  numbers.push_back(next);
  return numbers;
}

/// By iteration, in order of arrival.
std::vector<std::vector<Arrival>> arrivals(const Schedule& schedule, const Trace& trace,
                                           const std::vector<std::uint32_t>& numbers) {
  std::vector<std::map<std::uint32_t, Seconds>> last(schedule.iterations);
  for (const Span& span : trace.spans) {
    if (schedule.program_of(span.rank).ops[span.op.index()].role != UpdateRole::gather_gradient)
      continue;
    Seconds& when = last[span.iteration][numbers[span.rank.index()]];
    when = std::max(when, span.end);
  }
  std::vector<std::vector<Arrival>> sorted(schedule.iterations);
  for (std::size_t iteration = 0; iteration < last.size(); ++iteration) {
    for (const auto& [worker, when] : last[iteration]) sorted[iteration].emplace_back(when, worker);
    std::ranges::sort(sorted[iteration]);
  }
  return sorted;
}

/// The gradients of one synchronous round, by worker.
std::vector<AppliedUpdate> round_of(const Update& update, std::uint64_t version,
                                    std::vector<Arrival> arrived, std::size_t counted) {
  arrived.resize(std::min(arrived.size(), counted));
  std::vector<AppliedUpdate> round;
  round.reserve(arrived.size());
  for (const auto& [when, worker] : arrived)
    round.push_back({worker, update.iteration, version, version, update.applied});
  std::ranges::sort(round, {}, &AppliedUpdate::worker);
  return round;
}

}  // namespace

RunUpdates server_updates(const Schedule& schedule, const Trace& trace,
                          const ParameterServer& options, std::uint64_t warmup) {
  RunUpdates run;
  const std::vector<std::uint32_t> numbers = worker_numbers(schedule);
  run.workers = numbers.back();
  run.warmup = warmup;
  const bool synchronous = options.staleness == 0U;
  if (!synchronous && options.staleness) run.mitigation.staleness_bound = *options.staleness;
  run.mitigation.backup_workers = static_cast<std::uint32_t>(options.backup_workers);
  run.mitigation.warmup_rounds = schedule.warmup_rounds;
  run.mitigation.local_steps = static_cast<std::uint32_t>(options.local_steps);
  run.mitigation.outer = options.outer;
  const auto arrived = arrivals(schedule, trace, numbers);
  std::uint64_t version = 0;
  for (const Update& update : update_log(schedule, trace)) {
    if (!synchronous && update.iteration < schedule.warmup_rounds) {
      version = update.iteration;  // of the whole round
    }
    if (synchronous) {
      const auto round = round_of(update, version, arrived[update.iteration],
                                  run.workers - static_cast<std::size_t>(options.backup_workers));
      run.updates.insert(run.updates.end(), round.begin(), round.end());
    } else {
      run.updates.push_back({numbers[update.worker.index()], update.iteration, update.version_read,
                             version, update.applied});
    }
    ++version;
  }
  return run;
}

RunUpdates averaging_updates(const Trace& trace, const LocalSgd& options, std::uint32_t workers,
                             std::uint64_t warmup) {
  RunUpdates run{.workers = workers, .warmup = warmup, .mitigation = {}, .updates = {}};
  run.mitigation.local_steps = static_cast<std::uint32_t>(options.period);
  run.mitigation.outer = options.outer;
  for (std::size_t round = 0; round < trace.iteration_end.front().size(); ++round) {
    Seconds end;
    for (const auto& rank : trace.iteration_end) end = std::max(end, rank[round]);
    for (std::uint32_t worker = 0; worker < workers; ++worker)
      run.updates.push_back({worker, round, round, round, end});
  }
  return run;
}

}  // namespace rehearse::inline prediction
