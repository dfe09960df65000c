#include <algorithm>
#include <iterator>
#include <map>

#include "base/error.hpp"
#include "report/anatomy.hpp"
#include "report/intervals.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline report {
namespace {

/// Everything that one rank does in the window, by what it is.
struct Activity {
  Intervals compute, communication, host, peers, server;
  std::vector<Intervals> communication_by;  ///< by place in CommunicationNames
};

/// On the host's own lane, batches that it makes ready left out.
bool is_launch(const Program& program, const Op& op) {
  return op.lane && op.verb != Verb::load && program.lanes[op.lane->index()].kind == LaneKind::host;
}

std::string communication_name(const Op& op) {
  if (const auto* collective = std::get_if<Collective>(&op.work))
    return to_string(collective->kind);
  return op.verb == Verb::none ? op.of : to_string(op.verb);  // pull, push
}

/// Names of communications in reports, each once, and which operation has which: a text is made for
/// each operation, and not for each span.
class CommunicationNames {
 public:
  explicit CommunicationNames(const Schedule& schedule) {
    for (const Program& program : schedule.programs) {
      std::vector<std::size_t>& places = of_[&program];
      for (const Op& op : program.ops) {
        const bool communicates = std::holds_alternative<Collective>(op.work) ||
                                  std::holds_alternative<Transfer>(op.work);
        places.push_back(communicates ? place_of(communication_name(op)) : 0);
      }
    }
  }

  const std::vector<std::size_t>& places(const Program& program) const { return of_.at(&program); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::size_t place_of(const std::string& name) {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) names_.push_back(name);
    return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
  }

  std::vector<std::string> names_;
  std::map<const Program*, std::vector<std::size_t>> of_;
};

void record(const Program& program, std::size_t name, const Op& op, const Span& span,
            Activity& activity) {
  const Ends<Seconds> busy{span.start, span.end};
  if (std::holds_alternative<Collective>(op.work) || std::holds_alternative<Transfer>(op.work)) {
    activity.communication.push_back(busy);
    activity.communication_by[name].push_back(busy);
    if (std::holds_alternative<Collective>(op.work))
      activity.peers.push_back({span.ready, span.start});
  } else if (std::holds_alternative<Compute>(op.work) && on_compute_lane(program, op)) {
    activity.compute.push_back(busy);
  } else if (is_launch(program, op)) {
    activity.host.push_back(busy);
  } else if (op.phase == Phase::server && op.queue) {
    activity.server.push_back({span.ready, span.end});
  }
}

/// When servers are at work, for whomever.
Intervals served(const Schedule& schedule, const Trace& trace) {
  Intervals intervals;
  for (const Span& span : trace.spans) {
    const Op& op = schedule.program_of(span.rank).ops[span.op.index()];
    if (op.phase == Phase::server && op.queue) intervals.push_back({span.start, span.end});
  }
  return intervals;
}

std::vector<Activity> activities(const Schedule& schedule, const Trace& trace,
                                 const CommunicationNames& names) {
  std::vector<Activity> activities(trace.recorded_ranks);
  std::vector<const std::vector<std::size_t>*> places;
  for (std::size_t rank = 0; rank < trace.recorded_ranks; ++rank) {
    activities[rank].communication_by.resize(names.names().size());
    places.push_back(&names.places(schedule.program_of(RankId(rank))));
  }
  for (const Span& span : trace.spans) {
    const std::size_t rank = span.rank.index(), op = span.op.index();
    if (rank >= trace.recorded_ranks) continue;
    const Program& program = schedule.program_of(span.rank);
    record(program, (*places[rank])[op], program.ops[op], span, activities[rank]);
  }
  return activities;
}

/// Time in `intervals` that is not in `covered`.
Seconds outside(const Intervals& intervals, const Intervals& covered) {
  return length(intervals) - length(intersect(intervals, covered));
}

/// What is left of a step; sums of many spans leave round-off, which is no time.
Seconds rest_of(Seconds step, Seconds used) {
  constexpr double kRoundOff = 1e-12;
  return step - used > kRoundOff * step ? step - used : Seconds(0);
}

/// What one rank does in a window, whole.
Anatomy dissect_rank(Activity activity, const Intervals& served,
                     const std::vector<std::string>& names, const Ends<Seconds>& window) {
  const Intervals compute = unite(std::move(activity.compute), window);
  const Intervals communication = unite(std::move(activity.communication), window);
  Intervals both;
  std::ranges::merge(compute, communication, std::back_inserter(both), {}, &Ends<Seconds>::low,
                     &Ends<Seconds>::low);
  const Intervals busy = unite(std::move(both), window);

  Anatomy anatomy;
  Breakdown& parts = anatomy.breakdown;
  anatomy.step = window.high - window.low;
  parts.compute = length(compute);
  parts.hidden_communication = length(intersect(compute, communication));
  parts.exposed_communication = length(communication) - parts.hidden_communication;
  parts.idle = rest_of(anatomy.step, parts.compute + parts.exposed_communication);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Intervals& of_name = activity.communication_by[i];
    if (of_name.empty()) continue;
    anatomy.exposed_by[names[i]] = outside(unite(std::move(of_name), window), compute);
  }
  anatomy.waiting_for_host = outside(unite(std::move(activity.host), window), busy);
  anatomy.waiting_for_peers = outside(unite(std::move(activity.peers), window), busy);
  Intervals servers = served;
  servers.insert(servers.end(), activity.server.begin(), activity.server.end());
  anatomy.waiting_for_server = outside(unite(std::move(servers), window), busy);
  return anatomy;
}

void add(const Anatomy& rank, double weight, Anatomy& sum) {
  sum.step += rank.step * weight;
  sum.breakdown.compute += rank.breakdown.compute * weight;
  sum.breakdown.exposed_communication += rank.breakdown.exposed_communication * weight;
  sum.breakdown.hidden_communication += rank.breakdown.hidden_communication * weight;
  sum.breakdown.idle += rank.breakdown.idle * weight;
  for (const auto& [name, time] : rank.exposed_by) sum.exposed_by[name] += time * weight;
  sum.waiting_for_host += rank.waiting_for_host * weight;
  sum.waiting_for_peers += rank.waiting_for_peers * weight;
  sum.waiting_for_server += rank.waiting_for_server * weight;
}

void find_slowest(const std::vector<RankId>& ranks, const std::vector<Seconds>& compute,
                  Anatomy& anatomy) {
  const auto slowest = std::ranges::max_element(compute);
  std::vector<Seconds> sorted = compute;
  std::ranges::sort(sorted);
  const Seconds median = sorted[(sorted.size() - 1) / 2];
  anatomy.slowest = ranks[static_cast<std::size_t>(slowest - compute.begin())];
  if (median > Seconds(0)) anatomy.slowest_ratio = *slowest / median;
}

Seconds longest_loading(const Schedule& schedule) {
  Seconds longest;
  for (const Program& program : schedule.programs) {
    Seconds sum;
    for (const Op& op : program.ops)
      if (op.verb == Verb::load) sum += std::get<Compute>(op.work).duration;
    longest = std::max(longest, sum);
  }
  return longest;
}

}  // namespace

std::vector<RankAnatomy> dissect_ranks(const Schedule& schedule, const Trace& trace,
                                       const IterationsByRank& iterations) {
  std::vector<RankId> ranks = computing_ranks(schedule);
  std::erase_if(ranks, [&](RankId rank) { return rank.index() >= trace.recorded_ranks; });
  check(!ranks.empty(), "no rank that computes was recorded");

  const CommunicationNames names(schedule);
  std::vector<Activity> activity = activities(schedule, trace, names);
  const Intervals served_at = served(schedule, trace);
  std::vector<RankAnatomy> all;
  for (const RankId rank : ranks) {
    const std::vector<Seconds>& ends = trace.iteration_end[rank.index()];
    const auto [first, last] = iterations[rank.index()];
    check(first < last, "a breakdown of no iterations");
    const Ends<Seconds> window{first == 0 ? Seconds(0) : ends[first - 1], ends[last - 1]};
    all.push_back(
        {rank, dissect_rank(std::move(activity[rank.index()]), served_at, names.names(), window)});
  }
  return all;
}

Anatomy dissect(const Schedule& schedule, const Trace& trace, const IterationsByRank& iterations) {
  const std::vector<RankAnatomy> all = dissect_ranks(schedule, trace, iterations);
  const auto count = [&](const RankAnatomy& one) {
    return static_cast<double>(iterations[one.rank.index()].last -
                               iterations[one.rank.index()].first);
  };
  double counted = 0;
  for (const RankAnatomy& one : all) counted += count(one);
  Anatomy mean;
  std::vector<RankId> ranks;
  std::vector<Seconds> compute;
  for (const RankAnatomy& one : all) {
    ranks.push_back(one.rank);
    compute.push_back(one.anatomy.breakdown.compute / count(one));
    add(one.anatomy, 1 / counted, mean);
  }
  find_slowest(ranks, compute, mean);
  mean.loading = longest_loading(schedule);
  return mean;
}

Anatomy dissect(const Schedule& schedule, const Trace& trace, std::uint32_t first,
                std::uint32_t last) {
  return dissect(schedule, trace, IterationsByRank(schedule.ranks.size(), {first, last}));
}

Breakdown break_down(const Schedule& schedule, const Trace& trace, std::uint32_t first,
                     std::uint32_t last) {
  return dissect(schedule, trace, first, last).breakdown;
}

}  // namespace rehearse::inline report
