#include "schedule/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "base/error.hpp"

namespace rehearse::inline schedule {

namespace {

bool in_range(std::size_t index, std::size_t size) { return index < size; }

void check_size(Bytes size) {
  check(size.value() >= 0 && std::isfinite(size.value()), "a size that is negative or not finite");
}

void check_op_ids(const Schedule& schedule, const Program& program, const Op& op) {
  check(!(op.lane && op.queue), "an operation is on a lane and in a queue");
  check(!op.lane || in_range(op.lane->index(), program.lanes.size()), "lane out of range");
  check(!op.queue || in_range(op.queue->index(), schedule.queues.size()), "queue out of range");
  for (const After& after : op.after)
    check(in_range(after.op.index(), program.ops.size()), "after-edge out of range");
  for (const TensorEvent& event : op.memory)
    check(in_range(event.tensor.index(), program.tensors.size()), "tensor out of range");
  for (const Await& await : op.awaits)
    check(in_range(await.event.index(), schedule.events.size()), "awaited event out of range");
  for (const EventId event : op.signals)
    check(in_range(event.index(), schedule.events.size()), "signalled event out of range");
  if (const auto* transfer = std::get_if<Transfer>(&op.work)) {
    check(transfer->source || transfer->target, "a transfer from a rank to itself");
    for (const auto& end : {transfer->source, transfer->target})
      check(!end || in_range(end->index(), schedule.ranks.size()), "transfer end out of range");
    check_size(transfer->size);
  }
  if (const auto* collective = std::get_if<Collective>(&op.work)) check_size(collective->size);
  if (const auto* compute = std::get_if<Compute>(&op.work))
    check(compute->duration.value() >= 0 && std::isfinite(compute->duration.value()),
          "a duration that is negative or not finite");
  if (const auto* compute = std::get_if<Compute>(&op.work))
    check(compute->step < program.steps, "a training step out of range");
}

/// Slots for groups that a program's ranks need.
std::size_t group_slots(const Program& program) {
  std::size_t slots = 0;
  for (const Op& op : program.ops)
    if (const auto* collective = std::get_if<Collective>(&op.work))
      slots = std::max(slots, collective->group + 1);
  return slots;
}

void check_ids(const Schedule& schedule) {
  std::vector<std::size_t> slots;
  for (const Program& program : schedule.programs) {
    for (const Op& op : program.ops) check_op_ids(schedule, program, op);
    slots.push_back(group_slots(program));
  }
  for (const RankSpec& rank : schedule.ranks) {
    check(in_range(rank.program.index(), schedule.programs.size()), "program out of range");
    for (const GroupId group : rank.groups)
      check(in_range(group.index(), schedule.groups.size()), "group out of range");
    check(slots[rank.program.index()] <= rank.groups.size(), "group slot out of range");
  }
  for (const Group& group : schedule.groups)
    for (const RankId member : group.members)
      check(in_range(member.index(), schedule.ranks.size()), "group member out of range");
  for (const Queue& queue : schedule.queues)
    check(in_range(queue.owner.index(), schedule.ranks.size()), "queue owner out of range");
}

// Dependencies inside one iteration, over the operations of all programs and the events: like ranks
// share a program, so a cycle there is a cycle in every rank. A collective that ranks of unlike
// programs meet in is one node.
class SameIterationGraph {
 public:
  explicit SameIterationGraph(const Schedule& schedule) : schedule_(schedule) {
    std::size_t nodes = 0;
    for (const Program& program : schedule.programs) {
      first_op_.push_back(nodes);
      nodes += program.ops.size();
    }
    first_event_ = nodes;
    next_.resize(nodes + schedule.events.size());
    incoming_.resize(next_.size(), 0);
    join_collectives();
    for (std::size_t p = 0; p < schedule.programs.size(); ++p)
      add_program(schedule.programs[p], first_op_[p]);
  }

  /// Nothing: there is none. Else which operations of unlike programs wait for each other, if they
  /// do.
  std::optional<std::string> cycle() const {
    std::vector<std::size_t> incoming = incoming_;
    std::deque<std::size_t> free;
    for (std::size_t node = 0; node < incoming.size(); ++node)
      if (incoming[node] == 0) free.push_back(node);
    while (!free.empty()) {
      const std::size_t node = free.front();
      free.pop_front();
      for (const std::size_t next : next_[node])
        if (--incoming[next] == 0) free.push_back(next);
    }
    return named(incoming);
  }

 private:
  void add_program(const Program& program, std::size_t first) {
    std::vector<std::optional<std::size_t>> last_on_lane(program.lanes.size());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      if (op.lane) {
        auto& last = last_on_lane[op.lane->index()];
        if (last) add_edge(*last, first + i);
        last = first + i;
      }
      for (const After& after : op.after)
        if (after.distance == 0) add_edge(first + after.op.index(), first + i);
      for (const Await& await : op.awaits)
        if (await.distance == 0) add_edge(first_event_ + await.event.index(), first + i);
      for (const EventId event : op.signals) add_edge(first + i, first_event_ + event.index());
    }
  }
  void add_edge(std::size_t from, std::size_t to) {
    next_[node_of(from)].push_back(node_of(to));
    ++incoming_[node_of(to)];
  }
  std::size_t node_of(std::size_t op) const {
    const auto met = met_.find(op);
    return met == met_.end() ? op : met->second;
  }

  /// The collectives of a program on one slot of its groups, in order, as nodes.
  std::vector<std::size_t> issued(std::size_t program, std::size_t slot) const {
    std::vector<std::size_t> nodes;
    const auto& ops = schedule_.programs[program].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto* collective = std::get_if<Collective>(&ops[i].work);
      if (collective && collective->group == slot) nodes.push_back(first_op_[program] + i);
    }
    return nodes;
  }

  void join_collectives() {
    if (schedule_.programs.size() < 2) return;
    using End = std::pair<std::size_t, std::size_t>;  // program, slot
    std::vector<std::set<End>> ends(schedule_.groups.size());
    for (const RankSpec& rank : schedule_.ranks)
      for (std::size_t slot = 0; slot < rank.groups.size(); ++slot)
        ends[rank.groups[slot].index()].insert({rank.program.index(), slot});
    std::set<std::set<End>> known;
    for (const std::set<End>& group : ends) {
      if (group.size() < 2 || !known.insert(group).second) continue;
      const auto first = issued(group.begin()->first, group.begin()->second);
      for (const auto& [program, slot] : group) {
        const auto others = issued(program, slot);
        for (std::size_t i = 0; i < std::min(first.size(), others.size()); ++i)
          if (others[i] != node_of(first[i])) met_[others[i]] = node_of(first[i]);
      }
    }
  }

  std::optional<std::string> named(const std::vector<std::size_t>& incoming) const {
    constexpr std::size_t kNamed = 4;
    if (std::ranges::count(incoming, std::size_t{0}) == std::ssize(incoming)) return std::nullopt;
    std::string text;
    std::size_t count = 0;
    for (std::size_t p = 0; p < schedule_.programs.size(); ++p) {
      const Program& program = schedule_.programs[p];
      for (std::size_t i = 0; i < program.ops.size() && count < kNamed; ++i) {
        if (incoming[node_of(first_op_[p] + i)] == 0) continue;
        text += (text.empty() ? ": " : ", ") + program.name + ": " + program.ops[i].label();
        ++count;
        break;
      }
    }
    return count > 1 ? text : "";
  }

  const Schedule& schedule_;
  std::map<std::size_t, std::size_t> met_;  ///< by operation: the node that it shares
  std::vector<std::size_t> first_op_;
  std::size_t first_event_ = 0;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::size_t> incoming_;
};

struct Issued {
  CollectiveKind kind;
  Bytes size;
  CollectiveAlgorithm algorithm;
  bool operator==(const Issued&) const = default;
};

// The collectives that a program issues on each of its group slots, in order.
std::vector<std::vector<Issued>> issued_by_slot(const Program& program) {
  std::vector<std::vector<Issued>> slots;
  for (const Op& op : program.ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (!collective) continue;
    if (collective->group >= slots.size()) slots.resize(collective->group + 1);
    slots[collective->group].push_back({collective->kind, collective->size, collective->algorithm});
  }
  return slots;
}

void check_collective_order(const Schedule& schedule) {
  std::vector<std::vector<std::vector<Issued>>> by_program;
  for (const Program& program : schedule.programs) by_program.push_back(issued_by_slot(program));
  std::vector<const std::vector<Issued>*> expected(schedule.groups.size(), nullptr);
  std::vector<std::vector<RankId>> issuers(schedule.groups.size());  // ascending
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankSpec& rank = schedule.ranks[r];
    const auto& slots = by_program[rank.program.index()];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].empty()) continue;
      const std::size_t group = rank.groups[slot].index();
      issuers[group].emplace_back(r);
      if (!expected[group]) expected[group] = &slots[slot];
      check(expected[group] == &slots[slot] || *expected[group] == slots[slot],
            "members of a group issue different collectives");
    }
  }
  for (std::size_t group = 0; group < schedule.groups.size(); ++group) {
    if (!expected[group]) continue;
    std::vector<RankId> members = schedule.groups[group].members;
    std::sort(members.begin(), members.end());
    check(issuers[group] == members, "a group's collectives are not issued by exactly its members");
  }
}

}  // namespace

std::string to_string(Verb verb) {
  static constexpr std::array<const char*, 30> kNames = {"",
                                                         "forward",
                                                         "backward",
                                                         "backward (input)",
                                                         "backward (weight)",
                                                         "recompute",
                                                         "optimizer",
                                                         "unscale",
                                                         "clip",
                                                         "launch",
                                                         "load",
                                                         "wait for",
                                                         "copy",
                                                         "copy to GPU",
                                                         "copy to host",
                                                         "all_reduce",
                                                         "all_gather",
                                                         "reduce_scatter",
                                                         "broadcast",
                                                         "send_recv",
                                                         "reduce",
                                                         "all_to_all",
                                                         "pull",
                                                         "push",
                                                         "pack",
                                                         "unpack",
                                                         "serve",
                                                         "take in",
                                                         "apply",
                                                         "update"};
  return kNames.at(static_cast<std::size_t>(verb));
}

Verb verb_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return Verb::all_reduce;
    case CollectiveKind::all_gather:
      return Verb::all_gather;
    case CollectiveKind::reduce_scatter:
      return Verb::reduce_scatter;
    case CollectiveKind::broadcast:
      return Verb::broadcast;
    case CollectiveKind::send_recv:
      return Verb::send_recv;
    case CollectiveKind::reduce:
      return Verb::reduce;
    case CollectiveKind::all_to_all:
      return Verb::all_to_all;
  }
  throw InternalError("internal error: unknown collective");
}

std::string Op::title() const {
  std::string text = to_string(verb);
  for (const std::string& part : {to_string(pass), of})
    if (!part.empty()) text += (text.empty() ? "" : " ") + part;
  return text;
}

std::string Op::label() const {
  std::string text = title();
  if (moves) text += " (" + format(*moves) + ")";
  return text + remark;
}

std::string to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::automatic:
      return "automatic";
    case CollectiveAlgorithm::ring:
      return "ring";
    case CollectiveAlgorithm::tree:
      return "tree";
    case CollectiveAlgorithm::hierarchical:
      return "hierarchical";
    case CollectiveAlgorithm::direct:
      return "direct";
  }
  throw InternalError("internal error: unknown collective algorithm");
}

std::string to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameters:
      return "parameters";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer_state:
      return "optimizer_state";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::buckets:
      return "buckets";
    case MemoryKind::gathered:
      return "gathered";
    case MemoryKind::workspace:
      return "workspace";
    case MemoryKind::communication:
      return "communication";
  }
  throw InternalError("internal error: unknown memory kind");
}

void validate(const Schedule& schedule) {
  check(schedule.iterations > 0, "a schedule without iterations");
  check(!schedule.ranks.empty(), "a schedule without ranks");
  check_ids(schedule);
  check_collective_order(schedule);
  const auto cycle = SameIterationGraph(schedule).cycle();
  if (cycle)
    throw InternalError("internal error: the schedule waits for itself in a cycle" + *cycle);
}

bool on_compute_lane(const Program& program, const Op& op) {
  return op.lane && program.lanes[op.lane->index()].kind == LaneKind::compute;
}

namespace {

bool trains(Phase phase) {
  return phase == Phase::forward || phase == Phase::backward || phase == Phase::optimizer;
}

bool is_computing(const Program& program) {
  return std::ranges::any_of(
      program.ops, [&](const Op& op) { return trains(op.phase) && on_compute_lane(program, op); });
}

}  // namespace

std::vector<RankId> computing_ranks(const Schedule& schedule) {
  std::vector<bool> computing;
  for (const Program& program : schedule.programs) computing.push_back(is_computing(program));
  std::vector<RankId> ranks;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    if (computing[schedule.ranks[rank].program.index()]) ranks.emplace_back(rank);
  }
  return ranks;
}

bool has_parameter_server(const Schedule& schedule) {
  return std::ranges::any_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops,
                               [](const Op& op) { return op.role != UpdateRole::none; });
  });
}

}  // namespace rehearse::inline schedule
