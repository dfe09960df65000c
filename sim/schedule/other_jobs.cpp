#include "schedule/other_jobs.hpp"

#include <algorithm>
#include <utility>

namespace rehearse::inline schedule {
namespace {

/// What the ids of a schedule are moved by where it is appended to another.
struct Offsets {
  std::size_t programs, ranks, groups, queues, events;
};

template <class Tag>
void move(Id<Tag>& id, std::size_t by) {
  id = Id<Tag>(id.index() + by);
}

void move(Op& op, const Offsets& by) {
  if (op.queue) move(*op.queue, by.queues);
  for (Await& await : op.awaits) move(await.event, by.events);
  for (EventId& event : op.signals) move(event, by.events);
  if (auto* transfer = std::get_if<Transfer>(&op.work)) {
    if (transfer->source) move(*transfer->source, by.ranks);
    if (transfer->target) move(*transfer->target, by.ranks);
  }
}

void place(RankSpec& rank, const std::vector<NodeId>& nodes) {
  rank.place.node = nodes.at(rank.place.node.index());
}

void append(Schedule& whole, const OtherJobs::Job& other, std::uint32_t number) {
  const Offsets by{whole.programs.size(), whole.ranks.size(), whole.groups.size(),
                   whole.queues.size(), whole.events.size()};
  for (Program program : other.schedule.programs) {
    for (Op& op : program.ops) move(op, by);
    whole.programs.push_back(std::move(program));
  }
  for (RankSpec rank : other.schedule.ranks) {
    move(rank.program, by.programs);
    for (GroupId& group : rank.groups) move(group, by.groups);
    place(rank, other.nodes);
    rank.job = number;
    whole.ranks.push_back(std::move(rank));
  }
  for (Group group : other.schedule.groups) {
    for (RankId& member : group.members) move(member, by.ranks);
    whole.groups.push_back(std::move(group));
  }
  for (Queue queue : other.schedule.queues) {
    move(queue.owner, by.ranks);
    whole.queues.push_back(std::move(queue));
  }
  whole.events.insert(whole.events.end(), other.schedule.events.begin(),
                      other.schedule.events.end());
}

bool takes_time(const Op& op) {
  constexpr Seconds kLeast{1e-6};
  if (const auto* compute = std::get_if<Compute>(&op.work)) return compute->duration >= kLeast;
  if (const auto* transfer = std::get_if<Transfer>(&op.work)) return transfer->size > Bytes(0);
  return false;
}

}  // namespace

Cluster part_of(const Cluster& cluster, const std::vector<NodeId>& nodes) {
  Cluster part = cluster;
  part.groups.clear();
  part.fabric = Star{};
  const NodeGroup* last = nullptr;
  for (const NodeId node : nodes) {
    const NodeGroup& group = cluster.group_of(node);
    if (&group != last) {
      part.groups.push_back(group);
      part.groups.back().nodes = 0;
    }
    ++part.groups.back().nodes;
    last = &group;
  }
  return part;
}

bool takes_time(const Schedule& schedule) {
  return std::ranges::any_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops, [](const Op& op) { return takes_time(op); });
  });
}

Schedule together(const Schedule& job, const OtherJobs& others) {
  Schedule whole = job;
  for (RankSpec& rank : whole.ranks) place(rank, others.nodes);
  std::uint32_t number = 0;
  for (const OtherJobs::Job& other : others.jobs) append(whole, other, ++number);
  return whole;
}

}  // namespace rehearse::inline schedule
