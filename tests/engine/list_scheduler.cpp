#include "engine/list_scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "collective/plan.hpp"
#include "schedule/jitter.hpp"

namespace rehearse {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Instance {
  std::size_t rank, op;
};

// Every time starts as "never" and is computed again from the others until none changes. Causes
// precede effects, so the fixed point is unique, and each sweep settles at least the earliest
// operation that is not settled yet.
class ListScheduler {
 public:
  ListScheduler(const Schedule& schedule, const Cluster& cluster)
      : schedule_(schedule), cluster_(cluster) {
    signallers_.resize(schedule.events.size());
    served_.resize(schedule.queues.size());
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
      std::map<std::size_t, std::size_t> issued;  // by group slot
      const auto& ops = schedule.program_of(RankId(r)).ops;
      times_.emplace_back(ops.size(),
                          std::vector<When>(schedule.iterations, {kNever, kNever, kNever}));
      for (std::size_t o = 0; o < ops.size(); ++o) {
        for (const EventId event : ops[o].signals) signallers_[event.index()].push_back({r, o});
        if (ops[o].queue) served_[ops[o].queue->index()].push_back({r, o});
        if (const auto* collective = std::get_if<Collective>(&ops[o].work))
          meetings_[{group(r, *collective), issued[collective->group]++}].push_back({r, o});
      }
    }
  }

  Timetable timetable() {
    std::size_t instances = 0;
    for (const auto& rank : times_) instances += rank.size() * schedule_.iterations;
    for (std::size_t sweeps = 0; sweep(); ++sweeps)
      if (sweeps > instances + 1) throw std::runtime_error("the list scheduler does not settle");
    for (const auto& rank : times_)
      for (const auto& op : rank)
        for (const When& when : op)
          if (!std::isfinite(when.end)) throw std::runtime_error("an operation never ends");
    return std::move(times_);
  }

 private:
  std::size_t group(std::size_t rank, const Collective& collective) const {
    return schedule_.ranks[rank].groups[collective.group].index();
  }
  const Op& op(Instance what) const { return schedule_.program_of(RankId(what.rank)).ops[what.op]; }

  // What runs right before on the same stream; an operation on no stream follows its own previous
  // iteration.
  double stream_free(Instance what, std::size_t iteration) const {
    const auto& ops = schedule_.program_of(RankId(what.rank)).ops;
    const auto lane = ops[what.op].lane;
    for (std::size_t o = what.op; lane && o-- > 0;)
      if (ops[o].lane == lane) return times_[what.rank][o][iteration].end;
    if (iteration == 0) return 0;
    for (std::size_t o = ops.size(); lane && o-- > what.op;)
      if (ops[o].lane == lane) return times_[what.rank][o][iteration - 1].end;
    return times_[what.rank][what.op][iteration - 1].end;
  }

  double happens(EventId event, std::size_t iteration) const {
    std::vector<double> signals;
    for (const Instance& by : signallers_[event.index()])
      signals.push_back(times_[by.rank][by.op][iteration].end);
    const std::size_t needs = schedule_.events[event.index()].needs;
    if (signals.size() < needs) return kNever;
    std::sort(signals.begin(), signals.end());
    return signals[needs - 1];
  }

  double ready(Instance what, std::size_t iteration) const {
    double last = stream_free(what, iteration);
    for (const After& after : op(what).after)
      if (after.distance <= iteration)
        last = std::max(last, times_[what.rank][after.op.index()][iteration - after.distance].end);
    for (const Await& await : op(what).awaits)
      if (const auto instance = await.instance(static_cast<std::uint32_t>(iteration)))
        last = std::max(last, happens(await.event, *instance));
    return last;
  }

  double duration(Instance what, std::size_t iteration) const {
    const Work& work = op(what).work;
    if (const auto* compute = std::get_if<Compute>(&work)) {
      const std::uint32_t steps = schedule_.program_of(RankId(what.rank)).steps;
      const auto k = static_cast<std::uint32_t>(iteration) * steps + compute->step;
      return compute->duration.value() *
             (compute->jittered ? compute_factor(schedule_, RankId(what.rank), k) : 1);
    }
    if (const auto* collective = std::get_if<Collective>(&work)) {
      const Group& members = schedule_.groups[group(what.rank, *collective)];
      return plan_collective(collective->kind, CollectiveAlgorithm::ring, members, schedule_.ranks,
                             cluster_, Fidelity::flow)
          .uncontended(collective->size)
          .value();
    }
    const auto* transfer = std::get_if<Transfer>(&work);
    if (!transfer) return 0;
    const Place from = schedule_.ranks[transfer->source.value_or(RankId(what.rank)).index()].place;
    const Place to = schedule_.ranks[transfer->target.value_or(RankId(what.rank)).index()].place;
    if (from == to) return 0;
    const PortPair ports = ports_between(cluster_, from, to);
    const auto rate =
        std::min(port_bandwidth(cluster_, ports.source), port_bandwidth(cluster_, ports.target));
    return (path_latency(cluster_, from, to) + transfer->size / rate).value();
  }

  void set(Instance what, std::size_t iteration, double start, double lasts) {
    When& when = times_[what.rank][what.op][iteration];
    changed_ = changed_ || when.end != start + lasts || when.start != start;
    when.start = start;
    when.end = start + lasts;
  }

  bool sweep() {
    changed_ = false;
    for (std::size_t k = 0; k < schedule_.iterations; ++k) {
      for (std::size_t r = 0; r < times_.size(); ++r)
        for (std::size_t o = 0; o < times_[r].size(); ++o) {
          double& now = times_[r][o][k].ready;
          const double then = std::exchange(now, ready({r, o}, k));
          changed_ = changed_ || then != now;
          const bool meets = std::holds_alternative<Collective>(op({r, o}).work);
          if (!meets && !op({r, o}).queue) set({r, o}, k, now, duration({r, o}, k));
        }
      for (const auto& [meeting, members] : meetings_) meet(members, k);
    }
    for (std::size_t q = 0; q < served_.size(); ++q) serve(q);
    return changed_;
  }

  void meet(const std::vector<Instance>& members, std::size_t iteration) {
    double last = 0;
    for (const Instance& member : members)
      last = std::max(last, times_[member.rank][member.op][iteration].ready);
    for (const Instance& member : members)
      set(member, iteration, last, duration(member, iteration));
  }

  using Arrival = std::pair<Instance, std::size_t>;  // and its iteration

  double arrived(const Arrival& arrival) const {
    return times_[arrival.first.rank][arrival.first.op][arrival.second].ready;
  }

  /// Of those that have come by `now`, in order, the most urgent, or the first.
  std::size_t next_of(const std::vector<Arrival>& arrivals, double now, bool by_priority) const {
    std::size_t best = 0;
    for (std::size_t a = 0; by_priority && a < arrivals.size() && arrived(arrivals[a]) <= now; ++a)
      if (op(arrivals[a].first).priority < op(arrivals[best].first).priority) best = a;
    return best;
  }

  void serve(std::size_t queue) {
    std::vector<Arrival> arrivals;
    for (const Instance& what : served_[queue])
      for (std::size_t k = 0; k < schedule_.iterations; ++k) arrivals.push_back({what, k});
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [&](const Arrival& a, const Arrival& b) { return arrived(a) < arrived(b); });
    double free = 0;
    while (!arrivals.empty()) {
      const double now = std::max(free, arrived(arrivals.front()));
      const std::size_t next = next_of(arrivals, now, schedule_.queues[queue].by_priority);
      const Arrival arrival = arrivals[next];
      arrivals.erase(arrivals.begin() + static_cast<std::ptrdiff_t>(next));
      const double lasts = duration(arrival.first, arrival.second);
      free = std::max(free, arrived(arrival));
      set(arrival.first, arrival.second, free, lasts);
      free += lasts;
    }
  }

  const Schedule& schedule_;
  const Cluster& cluster_;
  Timetable times_;
  std::vector<std::vector<Instance>> signallers_, served_;  // by event, by queue
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Instance>>
      meetings_;  // by group and position in it
  bool changed_ = false;
};

}  // namespace

Timetable list_schedule(const Schedule& schedule, const Cluster& cluster) {
  return ListScheduler(schedule, cluster).timetable();
}

}  // namespace rehearse
