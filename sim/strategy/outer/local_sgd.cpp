// Local SGD: steps that no other replica waits for, then one all_reduce of the parameters in one
// flat tensor (torch/distributed/algorithms/model_averaging/utils.py, average_parameters), or
// DiLoCo's outer step. Each rank of a replica exchanges its share with those at its place in
// others.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/layout/layout_holdings.hpp"
#include "strategy/outer/period.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

namespace {

/// What the ranks of a replica hold, by Program::stage.
std::vector<std::vector<Holding>> holdings_in(const Strategy& strategy, const Job& job) {
  if (strategy.layout) return holdings_of(strategy, job);
  const std::size_t ranks = job.cluster.gpu_count();
  Holding all{.size = parameter_bytes(job.model, job.precision),
              .elements = static_cast<double>(job.model.trainable_parameters()),
              .ranks = ranks};
  if (const auto sharded = sharded_in(strategy)) {
    const auto shards = static_cast<double>(shard_group_size(*sharded, job));
    all.size = all.size / shards;
    all.elements /= shards;
    all.ranks = ranks / shard_group_size(*sharded, job);
    all.group = 1;
  }
  return {{all}};
}

/// Each of those that hold the same exchanges a part of it.
OuterShare share_of(const std::vector<Holding>& holdings, const Job& job, std::size_t slots) {
  OuterShare share{.element = parameter_element(job.precision),
                   .outer_group = slots,
                   .precision = job.precision};
  Bytes size;
  double elements = 0;
  for (const Holding& holding : holdings) {
    share.elements += holding.elements / static_cast<double>(holding.ranks);
    elements += holding.elements;
    size += holding.size;
    if (holding.ranks > 1 && !holding.sharded) share.held.push_back({holding.size, holding.group});
  }
  if (elements > 0) share.element = size / elements;
  return share;
}

using Nodes = std::vector<std::size_t>;  ///< groups of a cluster's nodes

/// `count` GPUs from the `first` on, and of which groups they are. Like nodes that follow each
/// other are one group.
std::pair<Cluster, Nodes> part_of(const Cluster& cluster, std::size_t first, std::size_t count) {
  const std::vector<Place> places = gpu_places(cluster);
  std::pair<Cluster, Nodes> part, merged;
  std::optional<NodeId> latest;
  for (std::size_t i = first; i < first + count; ++i) {
    const NodeId node = places[i].node;
    if (latest == node) {
      ++part.first.groups.back().node.gpus;
      continue;
    }
    latest = node;
    const auto group = static_cast<std::size_t>(&cluster.group_of(node) - cluster.groups.data());
    part.second.push_back(group);
    part.first.groups.push_back(cluster.groups[group]);
    part.first.groups.back().nodes = 1;
    part.first.groups.back().node.gpus = 1;
  }
  for (std::size_t g = 0; g < part.second.size(); ++g) {
    const NodeGroup& next = part.first.groups[g];
    std::vector<NodeGroup>& groups = merged.first.groups;
    if (!groups.empty() && merged.second.back() == part.second[g] &&
        groups.back().node.gpus == next.node.gpus) {
      ++groups.back().nodes;
    } else {
      merged.second.push_back(part.second[g]);
      groups.push_back(next);
    }
  }
  return merged;
}

class LocalSgdBuilder {
 public:
  LocalSgdBuilder(const Strategy& strategy, const Job& job)
      : strategy_(strategy),
        job_(job),
        places_(gpu_places(job.cluster)),
        replicas_(replica_count(strategy, job.cluster)),
        each_(places_.size() / replicas_) {}

  Schedule make() {
    for (std::size_t replica = 0; replica < replicas_; ++replica) add_replica(replica * each_);
    for (std::size_t place = 0; place < each_; ++place) {
      std::vector<RankId> members;
      for (std::size_t replica = 0; replica < replicas_; ++replica) {
        members.emplace_back(replica * each_ + place);
        schedule_.ranks[members.back().index()].groups.emplace_back(schedule_.groups.size());
      }
      schedule_.groups.push_back(
          make_group(each_ == 1 ? "world" : "outer", std::move(members), schedule_));
      if (strategy_.layout) schedule_.groups.back().axis = MeshAxis::data;
    }
    schedule_.replicas = replicas_;
    return std::move(schedule_);
  }

 private:
  /// What a replica has of the cluster.
  struct Part {
    Cluster cluster;
    std::vector<std::size_t> groups;  ///< of the cluster, by its own
    bool operator==(const Part& other) const {
      return groups == other.groups && sizes() == other.sizes();
    }
    std::vector<std::pair<int, int>> sizes() const {
      std::vector<std::pair<int, int>> all;
      for (const NodeGroup& group : cluster.groups) all.emplace_back(group.nodes, group.node.gpus);
      return all;
    }
  };
  /// The schedule of like replicas, and where their programs are.
  struct Built {
    Part part;
    Schedule schedule;
    std::size_t first_program = 0;
  };

  Part part_from(std::size_t first) const;
  const Built& built(Part part);
  void add_programs(Built& built);
  void add_replica(std::size_t first);

  const Strategy& strategy_;
  const Job& job_;
  std::vector<Place> places_;
  std::size_t replicas_, each_;
  std::vector<Built> built_;
  Schedule schedule_;
};

LocalSgdBuilder::Part LocalSgdBuilder::part_from(std::size_t first) const {
  auto [cluster, groups] = part_of(job_.cluster, first, each_);
  return {.cluster = std::move(cluster), .groups = std::move(groups)};
}

const LocalSgdBuilder::Built& LocalSgdBuilder::built(Part part) {
  const auto known = std::ranges::find(built_, part, &Built::part);
  if (known != built_.end()) return *known;
  Built& made = built_.emplace_back(Built{std::move(part), {}, schedule_.programs.size()});
  add_programs(made);
  return made;
}

void LocalSgdBuilder::add_programs(Built& built) {
  Job job{.model = job_.model,
          .cluster = built.part.cluster,
          .precision = job_.precision,
          .batch_per_gpu = job_.batch_per_gpu,
          .optimizer = job_.optimizer,
          .costs = {},
          .checkpointed = job_.checkpointed,
          .stops_early = job_.stops_early,
          .offloads_activations = job_.offloads_activations,
          .set_to_none = job_.set_to_none,
          .device = job_.device};
  for (const std::size_t group : built.part.groups) job.costs.push_back(job_.costs[group]);
  built.schedule = synchronized_schedule(strategy_, job);
  const std::vector<std::vector<Holding>> holdings = holdings_in(strategy_, job);
  for (std::size_t p = 0; p < built.schedule.programs.size(); ++p) {
    const Program& step = built.schedule.programs[p];
    const auto rank = std::ranges::find(built.schedule.ranks, ProgramId(p), &RankSpec::program);
    if (rank == built.schedule.ranks.end()) {  // a stage that lies on other nodes
      schedule_.programs.push_back(step);
      continue;
    }
    const std::size_t stages = holdings.size();
    const OuterShare share = share_of(holdings[p % stages], job, rank->groups.size());
    schedule_.programs.push_back(
        local_period(step, *strategy_.local_sgd, share, job.costs[p / stages]));
  }
}

void LocalSgdBuilder::add_replica(std::size_t first) {
  const Built& like = built(part_from(first));
  const std::size_t groups = schedule_.groups.size();
  for (std::size_t i = 0; i < each_; ++i) {
    RankSpec rank = like.schedule.ranks[i];
    rank.program = ProgramId(like.first_program + rank.program.index());
    rank.place = places_[first + i];
    for (GroupId& group : rank.groups) group = GroupId(groups + group.index());
    schedule_.ranks.push_back(std::move(rank));
  }
  for (Group group : like.schedule.groups) {
    for (RankId& member : group.members) member = RankId(first + member.index());
    schedule_.groups.push_back(std::move(group));
  }
}

}  // namespace

std::size_t replica_count(const Strategy& strategy, const Cluster& cluster) {
  if (!strategy.local_sgd) return 1;
  const std::size_t gpus = cluster.gpu_count();
  if (strategy.local_sgd->replicas > 0) {
    const auto count = static_cast<std::size_t>(strategy.local_sgd->replicas);
    if (gpus % count == 0) return count;
    throw InputError(fmt::format(
        "error: strategy.local_sgd.replicas: {} GPUs do not divide among {} replicas\nremedy: "
        "another number of replicas",
        gpus, count));
  }
  if (is_alone(strategy)) return gpus;
  if (const auto* sites = std::get_if<Sites>(&cluster.fabric))
    return cluster.node_count() / static_cast<std::size_t>(sites->nodes);
  std::size_t nodes = 0;
  for (const NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0) nodes += static_cast<std::size_t>(group.nodes);
  return nodes;
}

Cluster cluster_of_replica(const Strategy& strategy, const Cluster& cluster) {
  if (!strategy.local_sgd) return cluster;
  Cluster replica = cluster;
  const std::size_t count = cluster.gpu_count() / replica_count(strategy, cluster);
  replica.groups = part_of(cluster, 0, count).first.groups;
  return replica;
}

std::vector<std::size_t> groups_of_replica(const Strategy& strategy, const Cluster& cluster) {
  if (strategy.local_sgd)
    return part_of(cluster, 0, cluster.gpu_count() / replica_count(strategy, cluster)).second;
  std::vector<std::size_t> all(cluster.groups.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Schedule local_schedule(const Strategy& strategy, const Job& job) {
  return LocalSgdBuilder(strategy, job).make();
}

}  // namespace rehearse::inline strategy
