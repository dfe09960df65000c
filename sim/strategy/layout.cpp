// A model over a mesh of ranks: its stages on the ranks of pipelines, and how replicas of a stage
// keep the same parameters.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "model/stages.hpp"
#include "strategy/replicated.hpp"
#include "strategy/sharded.hpp"
#include "strategy/stage_plan.hpp"

namespace rehearse {
namespace {


/// The part of one rank of a pipeline, with all that its program is made of.
struct Share {
  Model model;
  StagePlan plan;
  std::vector<std::size_t> units;  ///< of the whole model
};

class LayoutBuilder {
 public:
  LayoutBuilder(const Layout& options, const Job& job)
      : options_(options), job_(job), order_(order_of(options)) {
    const auto mesh = mesh_on(options, job.cluster.gpu_count());
    check(mesh.has_value(), "a layout that does not suit its cluster");
    mesh_ = *mesh;
    std::string why_not;
    ranges_ = split_into_stages(job.model, static_cast<std::size_t>(order_.stage_count()),
                                options.split, why_not);
    if (!why_not.empty())
      throw InputError("error: strategy.pipeline_parallel: " + why_not +
                       "\nremedy: another number of stages, or pipeline: {split: [...]}");
    for (int rank = 0; rank < mesh_.pipeline; ++rank) shares_.push_back(share_of(rank));
  }

  Schedule make() {
    schedule_.mesh = mesh_;
    add_programs();
    add_ranks();
    add_groups();
    schedule_.samples_per_iteration = static_cast<double>(mesh_.data) * order_.micro_batches *
                                      static_cast<double>(job_.batch_per_gpu);
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
  /// Axes of exchanges within a layer, in the order of slots behind that of replicas.
  std::vector<MeshAxis> exchanging() const {
    std::vector<MeshAxis> axes;
    for (const MeshAxis axis : {MeshAxis::tensor, MeshAxis::context})
      if (mesh_.degree(axis) > 1) axes.push_back(axis);
    return axes;
  }
  std::optional<std::size_t> slot_of(MeshAxis axis) const {
    const auto axes = exchanging();
    const auto found = std::ranges::find(axes, axis);
    if (found == axes.end()) return std::nullopt;
    return static_cast<std::size_t>(found - axes.begin()) + 1;
  }
  std::size_t first_message() const { return 1 + exchanging().size(); }
  /// Ranks of a pipeline with a copy of the weight that embeddings and logits share.
  bool shares_weight(int rank) const {
    const auto first = rank_of_stage(0), last = rank_of_stage(order_.stage_count() - 1);
    return shared_weight(job_.model) > 0 && first != last &&
           (static_cast<std::size_t>(rank) == first || static_cast<std::size_t>(rank) == last);
  }

  Share share_of(int rank) const;
  StepCosts costs_of(const Share& share, const StepCosts& whole) const;
  Program program_of(const Share& share, const NodeGroup& group, const std::string& name,
                     const StepCosts& costs) const;
  void add_programs();
  void add_ranks();
  void add_groups();
  void add_group(const std::string& name, MeshAxis axis, const std::vector<std::size_t>& members);

  const Layout& options_;
  const Job& job_;
  PipelineOrder order_;
  Mesh mesh_;
  std::vector<UnitRange> ranges_;  ///< by stage
  std::vector<Share> shares_;      ///< by rank of a pipeline
  Schedule schedule_;
  std::vector<std::vector<ProgramId>> programs_;  ///< by node group and rank of a pipeline
};

Share LayoutBuilder::share_of(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  std::vector<UnitRange> own;
  for (const int stage : order_.stages[at]) own.push_back(ranges_[static_cast<std::size_t>(stage)]);
  Share share{.model = stage_of(job_.model, own), .plan = {}, .units = {}};
  for (const auto& [first, end] : own)
    for (std::size_t unit = first; unit < end; ++unit) share.units.push_back(unit);
  StagePlan& plan = share.plan;
  plan.order = order_.order[at];
  plan.replicas = static_cast<std::size_t>(mesh_.data) * static_cast<std::size_t>(mesh_.context);
  plan.tensor_group = slot_of(MeshAxis::tensor);
  plan.context_group = slot_of(MeshAxis::context);
  plan.contexts = static_cast<std::size_t>(mesh_.context);
  const bool known = !options_.order;
  plan.waits_for_sends = known && options_.schedule == PipelineSchedule::one_f_one_b;
  plan.receives_ahead = known && (options_.schedule == PipelineSchedule::gpipe ||
                                  options_.schedule == PipelineSchedule::one_f_one_b)
                            ? 0
                            : 1;
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
StepCosts LayoutBuilder::costs_of(const Share& share, const StepCosts& whole) const {
  StepCosts costs = whole;
  costs.units.clear();
  for (const std::size_t unit : share.units) costs.units.push_back(whole.units[unit]);
  const auto all = static_cast<double>(job_.model.parameters());
  if (all > 0) costs.optimizer *= static_cast<double>(share.model.parameters()) / all;
  return costs;
}

Program LayoutBuilder::program_of(const Share& share, const NodeGroup& group,
                                  const std::string& name, const StepCosts& costs) const {
  Job job{.model = share.model,
          .cluster = job_.cluster,
          .precision = job_.precision,
          .batch_per_gpu = job_.batch_per_gpu,
          .optimizer = job_.optimizer,
          .costs = {},
          .checkpointed = {},
          .set_to_none = job_.set_to_none,
          .device = job_.device,
          .stage = &share.plan};
  if (!job_.checkpointed.empty())
    for (const std::size_t unit : share.units) job.checkpointed.push_back(job_.checkpointed[unit]);
  if (const auto* ddp = std::get_if<Ddp>(&options_.data))
    return replicated_program(*ddp, job, false, group, name, costs);
  if (const auto* zero = std::get_if<Zero1>(&options_.data))
    return replicated_program(zero->ddp, job, true, group, name, costs);
  return sharded_program(std::get<Fsdp>(options_.data), job, group, name, costs);
}

void LayoutBuilder::add_programs() {
  for (std::size_t g = 0; g < job_.cluster.groups.size(); ++g) {
    programs_.emplace_back();
    const NodeGroup& group = job_.cluster.groups[g];
    if (group.node.gpus == 0) continue;
    for (std::size_t rank = 0; rank < shares_.size(); ++rank) {
      const std::string of = group.name.empty() ? "" : group.name + ", ";
      const std::string name = of + fmt::format("stage {}", rank);
      programs_.back().emplace_back(schedule_.programs.size());
      schedule_.programs.push_back(
          program_of(shares_[rank], group, name, costs_of(shares_[rank], job_.costs[g])));
      schedule_.programs.back().stage = static_cast<std::uint32_t>(rank);
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
        const auto stage = static_cast<std::size_t>(at[static_cast<std::size_t>(MeshAxis::pipeline)]);
        schedule_.ranks.push_back({.program = programs_[g][stage],
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

/// In the order of slots: replicas, who exchanges within a layer, then for each boundary activations and gradients, then who
/// shares a weight.
void LayoutBuilder::add_groups() {
  for (const auto& members : groups(mesh_, {MeshAxis::data, MeshAxis::context}))
    add_group("replicas", MeshAxis::data, members);
  for (const MeshAxis axis : exchanging())
    for (const auto& members : groups(mesh_, {axis})) add_group(to_string(axis), axis, members);
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

}  // namespace

std::optional<Mesh> mesh_on(const Layout& layout, std::size_t gpus) {
  Mesh mesh = layout.mesh;
  mesh.data = 1;
  const std::size_t replica = mesh.ranks();
  if (gpus == 0 || gpus % replica != 0) return std::nullopt;
  mesh.data = static_cast<int>(gpus / replica);
  return mesh;
}

ModelParallel parallel_of(const Layout& layout) {
  return {.tensor = layout.mesh.tensor,
          .sequence_parallel = layout.sequence_parallel,
          .context = layout.mesh.context,
          .context_method = layout.context_method,
          .expert = layout.mesh.expert};
}

PipelineOrder order_of(const Layout& layout) {
  if (layout.order) return *layout.order;
  return pipeline_order(layout.schedule, layout.mesh.pipeline, layout.micro_batches,
                        layout.virtual_stages);
}

Schedule build(const Layout& options, const Job& job) {
  require_gpus(job);
  return LayoutBuilder(options, job).make();
}

}  // namespace rehearse
