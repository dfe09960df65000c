// A model over a mesh of ranks: its stages on the ranks of pipelines, and how replicas of a stage
// keep the same parameters.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "model/stages.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/layout/layout_groups.hpp"
#include "strategy/layout/layout_holdings.hpp"
#include "strategy/layout/stage_plan.hpp"
#include "strategy/server/server_side.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

/// The part of one rank of a pipeline, with all that its program is made of.
struct RankShare {
  Model model;
  StagePlan plan;
  std::vector<std::size_t> units;  ///< of the whole model
};

/// What a plan does in the groups of one kind, which are its slot.
void give_slot(const LayoutGroups& kind, std::size_t slot, StagePlan& plan) {
  using Kind = LayoutGroups::Share;
  switch (kind.share) {
    case Kind::parameters:
      plan.replicas = kind.size();
      break;
    case Kind::shard:
      plan.same_shard_group = slot;
      break;
    case Kind::after_forward:
      plan.after_forward_group = slot;
      break;
    case Kind::experts:
      plan.expert_replicas_group = slot;
      plan.expert_replicas = kind.size();
      break;
    case Kind::expert_shard:
      plan.expert_same_shard_group = slot;
      break;
    case Kind::experts_after_forward:
      plan.expert_after_forward_group = slot;
      break;
    case Kind::layer:
      break;
  }
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Strategy& strategy, const Job& job)
      : strategy_(strategy),
        options_(*strategy.layout),
        job_(job),
        server_(server_in(strategy)),
        order_(order_of(options_)) {
    const auto mesh = mesh_on(options_, job.cluster.gpu_count());
    check(mesh.has_value(), "a layout that does not suit its cluster");
    check(!is_alone(strategy), "ranks of a layout that nothing keeps in step");
    mesh_ = *mesh;
    std::string why_not;
    ranges_ = split_into_stages(job.model, static_cast<std::size_t>(order_.stage_count()),
                                options_.split, why_not);
    if (!why_not.empty())
      throw InputError("error: strategy.pipeline_parallel: " + why_not +
                       "\nremedy: another number of stages, or pipeline: {split: [...]}");
    groups_ = layout_groups(strategy, job, mesh_);
    for (int rank = 0; rank < mesh_.pipeline; ++rank) shares_.push_back(share_of(rank));
  }

  std::vector<std::vector<Holding>> holdings() const;

  Schedule make() {
    schedule_.mesh = mesh_;
    if (server_ != nullptr) add_sides();
    add_programs();
    add_ranks();
    add_groups();
    schedule_.samples_per_iteration = static_cast<double>(mesh_.data) * order_.micro_batches *
                                      static_cast<double>(job_.batch_per_gpu);
    if (server_ != nullptr) add_server_ranks();
    return std::move(schedule_);
  }

 private:
  std::size_t rank_of_stage(int stage) const {
    return static_cast<std::size_t>(order_.place_of(stage).rank);
  }
  bool crosses(int stage) const {  ///< from this stage to the next
    return stage >= 0 && stage + 1 < order_.stage_count() &&
           rank_of_stage(stage) != rank_of_stage(stage + 1);
  }
  /// Boundaries between stages that a rank of a pipeline is at, in the order of the model.
  std::vector<int> boundaries_of(int rank) const {
    std::vector<int> all;
    for (int stage = 0; stage + 1 < order_.stage_count(); ++stage)
      if (crosses(stage) && (rank_of_stage(stage) == static_cast<std::size_t>(rank) ||
                             rank_of_stage(stage + 1) == static_cast<std::size_t>(rank)))
        all.push_back(stage);
    return all;
  }
  std::size_t slot_of(int rank, int boundary, bool gradients) const {
    const auto all = boundaries_of(rank);
    const auto at = static_cast<std::size_t>(std::ranges::find(all, boundary) - all.begin());
    return first_message() + 2 * at + (gradients ? 1 : 0);
  }
  std::size_t first_message() const { return groups_.size(); }
  /// Ranks of a pipeline with a copy of the weight that embeddings and logits share.
  bool shares_weight(int rank) const {
    const auto first = rank_of_stage(0), last = rank_of_stage(order_.stage_count() - 1);
    return shared_weight(job_.model) > 0 && first != last &&
           (static_cast<std::size_t>(rank) == first || static_cast<std::size_t>(rank) == last);
  }

  RankShare share_of(int rank) const;
  StepCosts costs_of(const RankShare& share, const StepCosts& whole) const;
  Job job_of(const RankShare& share) const;
  Program worker_of(const RankJob& rank, const ServerSide& side) const;
  /// Ranks of a stage with programs of their own: with parts of their own on servers.
  std::size_t parts() const {
    return server_ == nullptr ? 1 : static_cast<std::size_t>(mesh_.tensor);
  }
  void add_sides();
  void add_server_ranks();
  void add_programs();
  void add_ranks();
  void add_groups();
  void add_group(const std::string& name, MeshAxis axis, const std::vector<std::size_t>& members);

  const Strategy& strategy_;
  const Layout& options_;
  const Job& job_;
  const ParameterServer* server_;  ///< what replicas exchange with, in the place of each other
  PipelineOrder order_;
  Mesh mesh_;
  std::vector<LayoutGroups> groups_;  ///< in the order of slots, but for those of stages
  std::vector<UnitRange> ranges_;     ///< by stage
  std::vector<RankShare> shares_;     ///< by rank of a pipeline
  Schedule schedule_;
  /// By node group, and rank of a pipeline and its parts().
  std::vector<std::vector<ProgramId>> programs_;
  std::vector<ServerSide> sides_;  ///< by rank of a pipeline and its parts()
};

RankShare LayoutBuilder::share_of(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  std::vector<UnitRange> own;
  for (const int stage : order_.stages[at]) own.push_back(ranges_[static_cast<std::size_t>(stage)]);
  RankShare share{.model = stage_of(job_.model, own), .plan = {}, .units = {}};
  for (Chunk& chunk : share.model.chunks)
    chunk.holds_output = options_.holds_outputs && chunk.has_loss;
  for (const auto& [first, end] : own)
    for (std::size_t unit = first; unit < end; ++unit) share.units.push_back(unit);
  StagePlan& plan = share.plan;
  plan.order = order_.order[at];
  plan.beside_next = beside_next(strategy_, plan.order);
  for (std::size_t slot = 0; slot < groups_.size(); ++slot) {
    const LayoutGroups& kind = groups_[slot];
    if (kind.exchanges) plan.exchange_groups[*kind.exchanges] = slot;
    give_slot(kind, slot, plan);
  }
  if (!options_.sequence_parallel && options_.scatter_gather_tensors_in_pipeline)
    plan.alike = static_cast<std::size_t>(mesh_.tensor);
  plan.contexts = static_cast<std::size_t>(mesh_.context);
  plan.dispatch_sms = options_.dispatch_sms;
  plan.records_streams = !options_.avoid_record_streams;
  const bool known = !options_.order;
  plan.waits_for_sends = known && options_.schedule == PipelineSchedule::one_f_one_b;
  plan.receives_ahead = known && (options_.schedule == PipelineSchedule::gpipe ||
                                  options_.schedule == PipelineSchedule::one_f_one_b)
                            ? 0
                            : 1;
  if (options_.lists_receives && plan.receives_ahead > 0) plan.asks = asked_behind(order_)[at];
  for (std::size_t chunk = 0; chunk < own.size(); ++chunk) {
    const int stage = order_.stages[at][chunk];
    StagePlan::Part part{.first = share.model.chunks[chunk].first,
                         .end = share.model.chunks[chunk].end};
    if (crosses(stage - 1)) {
      part.input = slot_of(rank, stage - 1, false);
      part.input_gradient = slot_of(rank, stage - 1, true);
    }
    if (crosses(stage)) {
      part.output = slot_of(rank, stage, false);
      part.output_gradient = slot_of(rank, stage, true);
    }
    plan.parts.push_back(part);
  }
  if (shares_weight(rank)) {
    plan.shared_weight = shared_weight(job_.model);
    plan.shared_weight_group = first_message() + 2 * boundaries_of(rank).size();
  }
  return share;
}

/// The optimizer's by parameters.
StepCosts LayoutBuilder::costs_of(const RankShare& share, const StepCosts& whole) const {
  StepCosts costs = whole;
  costs.units.clear();
  for (const std::size_t unit : share.units) costs.units.push_back(whole.units[unit]);
  const auto all = static_cast<double>(job_.model.parameters());
  if (all > 0) costs.optimizer *= static_cast<double>(share.model.parameters()) / all;
  return costs;
}

Job LayoutBuilder::job_of(const RankShare& share) const {
  Job job{.model = share.model,
          .cluster = job_.cluster,
          .precision = job_.precision,
          .batch_per_gpu = job_.batch_per_gpu,
          .optimizer = job_.optimizer,
          .costs = {},
          .checkpointed = {},
          .stops_early = job_.stops_early,
          .offloads_activations = job_.offloads_activations,
          .set_to_none = job_.set_to_none,
          .trains = job_.trains,
          .device = job_.device,
          .stage = &share.plan};
  if (!job_.checkpointed.empty())
    for (const std::size_t unit : share.units) job.checkpointed.push_back(job_.checkpointed[unit]);
  return job;
}

Program LayoutBuilder::worker_of(const RankJob& rank, const ServerSide& side) const {
  WorkerPart part{.counts = &side == sides_.data()};
  if (server_->scheduling == ParameterServer::Scheduling::priority)
    part.queues = QueueId(side.servers.size());
  return server_worker(*server_, rank, side, part);
}

/// Each rank of a replica has a part of its own on the servers.
void LayoutBuilder::add_sides() {
  for (const RankShare& share : shares_)
    for (std::size_t part = 0; part < parts(); ++part)
      sides_.push_back(
          server_side(*server_, job_of(share), static_cast<std::size_t>(mesh_.data), schedule_));
}

void LayoutBuilder::add_server_ranks() {
  schedule_.warmup_rounds = static_cast<std::uint32_t>(server_->warmup_rounds);
  schedule_.samples_per_iteration *= server_->local_steps;
  add_queues(*server_, sides_.front().servers, schedule_);
  add_servers(*server_, job_, sides_, static_cast<std::size_t>(mesh_.data), schedule_);
}

void LayoutBuilder::add_programs() {
  for (std::size_t g = 0; g < job_.cluster.groups.size(); ++g) {
    programs_.emplace_back();
    const NodeGroup& group = job_.cluster.groups[g];
    if (group.node.gpus == 0) continue;
    for (std::size_t rank = 0; rank < shares_.size(); ++rank) {
      const std::string of = group.name.empty() ? "" : group.name + ", ";
      const std::string name = of + fmt::format("stage {}", rank);
      const Job job = job_of(shares_[rank]);
      const StepCosts costs = costs_of(shares_[rank], job_.costs[g]);
      for (std::size_t part = 0; part < parts(); ++part) {
        const RankJob of_rank{job, group, name, costs};
        programs_.back().emplace_back(schedule_.programs.size());
        schedule_.programs.push_back(server_ ? worker_of(of_rank, sides_[rank * parts() + part])
                                             : program_of(strategy_, of_rank));
        schedule_.programs.back().stage = static_cast<std::uint32_t>(rank);
      }
    }
  }
}

void LayoutBuilder::add_ranks() {
  std::size_t node = 0;
  for (std::size_t g = 0; g < job_.cluster.groups.size(); ++g) {
    const NodeGroup& group = job_.cluster.groups[g];
    for (int i = 0; i < group.nodes; ++i, ++node) {
      for (int gpu = 0; gpu < group.node.gpus; ++gpu) {
        const Coordinates at = coordinates(mesh_, schedule_.ranks.size());
        const auto stage =
            static_cast<std::size_t>(at[static_cast<std::size_t>(MeshAxis::pipeline)]);
        const auto tensor =
            static_cast<std::size_t>(at[static_cast<std::size_t>(MeshAxis::tensor)]);
        schedule_.ranks.push_back({.program = programs_[g][stage * parts() + tensor % parts()],
                                   .place = {NodeId(node), gpu},
                                   .slowdown = 1 / group.node.speed,
                                   .groups = {}});
      }
    }
  }
}

void LayoutBuilder::add_group(const std::string& name, MeshAxis axis,
                              const std::vector<std::size_t>& members) {
  const GroupId id(schedule_.groups.size());
  std::vector<RankId> ranks;
  for (const std::size_t member : members) {
    schedule_.ranks[member].groups.push_back(id);
    ranks.emplace_back(member);
  }
  schedule_.groups.push_back(make_group(name, std::move(ranks), schedule_));
  schedule_.groups.back().axis = axis;
}

/// Behind those of a stage, in the order of slots: for each boundary activations and gradients,
/// then who shares a weight.
void LayoutBuilder::add_groups() {
  for (const LayoutGroups& kind : groups_)
    for (const auto& members : kind.groups) add_group(kind.name, kind.axis, members);
  const auto pipelines = groups(mesh_, {MeshAxis::pipeline});
  for (const auto& pipeline : pipelines) {
    for (int stage = 0; stage + 1 < order_.stage_count(); ++stage) {
      if (!crosses(stage)) continue;
      const std::size_t from = pipeline[rank_of_stage(stage)];
      const std::size_t to = pipeline[rank_of_stage(stage + 1)];
      add_group(fmt::format("stages {} to {}", stage, stage + 1), MeshAxis::pipeline, {from, to});
      add_group(fmt::format("stages {} to {}", stage + 1, stage), MeshAxis::pipeline, {to, from});
    }
    const std::size_t first = rank_of_stage(0), last = rank_of_stage(order_.stage_count() - 1);
    if (shares_weight(static_cast<int>(first)))
      add_group("embeddings", MeshAxis::pipeline, {pipeline[first], pipeline[last]});
  }
}

std::vector<std::vector<Holding>> LayoutBuilder::holdings() const {
  const bool sharded = shards_parameters(strategy_);
  std::vector<std::vector<Holding>> all;
  for (const RankShare& share : shares_) {
    Holding experts{.ranks = share.plan.expert_replicas,
                    .group = share.plan.expert_replicas_group.value_or(0),
                    .sharded = sharded};
    for (const Unit& unit : share.model.units)
      for (std::size_t i = 0; i < unit.tensors.size(); ++i)
        if (unit.is_of_experts(i) && unit.trait(i).trained)
          experts.elements += static_cast<double>(unit.tensors[i]);
    experts.size = expert_bytes(share.model, job_.precision);
    Holding rest{.size = parameter_bytes(share.model, job_.precision),
                 .elements = static_cast<double>(share.model.trainable_parameters()),
                 .ranks = share.plan.replicas,
                 .sharded = sharded};
    all.emplace_back();
    if (share.plan.expert_replicas_group && experts.elements > 0) {
      rest.size -= experts.size;
      rest.elements -= experts.elements;
      all.back().push_back(experts);
    }
    all.back().push_back(rest);
  }
  return all;
}

}  // namespace

std::vector<std::vector<Holding>> holdings_of(const Strategy& strategy, const Job& job) {
  return LayoutBuilder(strategy, job).holdings();
}

Schedule layout_schedule(const Strategy& strategy, const Job& job) {
  return LayoutBuilder(strategy, job).make();
}

}  // namespace rehearse::inline strategy
