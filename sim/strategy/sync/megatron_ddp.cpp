// Replicas of a layout as Megatron-LM keeps them the same (core/distributed): the gradients of each
// part of the model are views of one buffer, to which products add theirs
// (gradient_accumulation_fusion), and buckets are parts of it.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "strategy/buckets.hpp"
#include "strategy/holdings.hpp"
#include "strategy/sync/bucket_reduction.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

namespace {

/// distributed_data_parallel.py: gradients of a bucket, and of each replica where that is more.
constexpr double kBucketElements = 40e6, kBucketElementsPerReplica = 1e6;

class BufferedGradients : public Sync {
 public:
  BufferedGradients(const MegatronDdp& options, const RankJob& rank, ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        plan_(*rank.job.stage),
        builder_(builder),
        nccl_(builder.lane("nccl", LaneKind::communication)),
        element_(*main_gradient_element(Strategy(options), rank.job.precision)),
        first_forward_(rank.job.model.units.size()) {
    for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
      const auto [first, end] = std::pair(plan_.parts[part].first, plan_.parts[part].end);
      const auto own = assign_buckets(job_.model, first, end, element_, cap(part), cap(part),
                                      plan_.expert_replicas_group.has_value());
      first_bucket_.push_back(buckets_.size());
      buckets_.insert(buckets_.end(), own.begin(), own.end());
    }
    first_bucket_.push_back(buckets_.size());
  }

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  Gradients gradients(const Pass& /*pass*/) const override { return Gradients::summed; }
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void step() override;

 private:
  Bytes cap(std::size_t part) const;
  After reduce(std::size_t bucket, OpId backward);
  void gather_parameters(OpId step);
  std::size_t end_of(std::size_t bucket, std::size_t part) const;
  void await(std::size_t unit, OpId gather);
  /// Experts' gradients are those of fewer ranks, or of more.
  std::size_t replicas_of(bool experts) const {
    return experts ? plan_.expert_replicas : job_.replicas();
  }
  OpId exchange(CollectiveKind kind, const std::string& what, Bytes size, bool experts, OpId after);
  Shards shards() const;

  const MegatronDdp options_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder& builder_;
  LaneId nccl_;
  std::optional<LaneId> expert_nccl_;
  Bytes element_;  ///< of a gradient
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> first_bucket_;           ///< by part of the plan, and all
  std::vector<std::optional<OpId>> first_forward_;  ///< by unit: the first operation of a step
  std::size_t begun_ = 0;                           ///< the operation that this forward began with
  std::vector<After> reduced_;
};

/// Of a bucket. Without overlap, behind the first stage and of a rank's further parts it is one, as
/// nothing would be gained.
Bytes BufferedGradients::cap(std::size_t part) const {
  if (options_.bucket_cap_mb) return *options_.bucket_cap_mb * kMiB;
  const bool first_stage = part == 0 && !plan_.parts[0].input;
  if (!options_.overlap_grad_reduce || !first_stage) return Bytes(1e18);
  const auto replicas = static_cast<double>(job_.replicas());
  return std::max(kBucketElements, kBucketElementsPerReplica * replicas) * element_;
}

void BufferedGradients::setup() {
  if (plan_.expert_replicas_group)
    expert_nccl_ = builder_.lane("nccl (experts' replicas)", LaneKind::communication);
  hold_parameters(builder_, options_.fp8_param_gather || options_.fp4_param_gather);
  hold_surroundings(builder_);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    builder_.hold(builder_.tensor(MemoryKind::gradients, buckets_[bucket].size,
                                  builder_.owner("bucket " + std::to_string(bucket))));
}

std::vector<After> BufferedGradients::before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
  begun_ = builder_.program.ops.size();
  return {};
}

void BufferedGradients::after_forward(std::size_t unit, OpId /*forward*/, const Pass& /*pass*/) {
  if (first_forward_[unit]) return;
  const auto& ops = builder_.program.ops;
  const auto first = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(begun_), ops.end(),
                                  [](const Op& op) { return op.phase == Phase::forward; });
  first_forward_[unit] = OpId(static_cast<std::size_t>(first - ops.begin()));
}

void BufferedGradients::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  if (!pass.last || !options_.overlap_grad_reduce) return;
  for (std::size_t bucket = first_bucket_[pass.part]; bucket < first_bucket_[pass.part + 1];
       ++bucket)
    if (buckets_[bucket].first_unit == unit) reduced_.push_back(reduce(bucket, backward));
}

OpId BufferedGradients::exchange(CollectiveKind kind, const std::string& what, Bytes size,
                                 bool experts, OpId after) {
  return builder_.collective(experts ? *expert_nccl_ : nccl_, what,
                             {.kind = kind,
                              .group = experts ? *plan_.expert_replicas_group : 0,
                              .size = size,
                              .algorithm = options_.algorithm},
                             {{after}});
}

Shards BufferedGradients::shards() const {
  if (!options_.use_distributed_optimizer) return 1;
  const auto all = static_cast<std::int64_t>(job_.replicas());
  if (!plan_.expert_replicas_group) return all;
  return {all, static_cast<std::int64_t>(plan_.expert_replicas)};
}

/// Each is looked at for NaNs, and divided by the number of replicas in place: experts' too, whose
/// gradients come of all replicas' tokens (param_and_grad_buffer.py, start_grad_sync).
After BufferedGradients::reduce(std::size_t bucket, OpId backward) {
  const Bytes size = buckets_[bucket].size;
  const bool experts = buckets_[bucket].experts;
  const std::string name = "bucket " + std::to_string(bucket);
  OpId ready = backward;
  const auto pass = [&](const char* what, double passes) {
    ready = builder_.copy(name + what, passes * size, {{ready}}).value_or(ready);
  };
  if (options_.check_for_nan_in_grad) pass(", checked", 1);
  if (job_.replicas() > 1) pass(", divided", 2);
  if (replicas_of(experts) == 1 && experts) return {ready};
  const auto kind = options_.use_distributed_optimizer ? CollectiveKind::reduce_scatter
                                                       : CollectiveKind::all_reduce;
  return {exchange(kind, name, size, experts, ready)};
}

void BufferedGradients::step() {
  if (!options_.overlap_grad_reduce)
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      reduced_.push_back(reduce(bucket, *builder_.last_computed()));
  std::vector<After> reduced = std::exchange(reduced_, {});
  finish_gradients(builder_, {nccl_, element_, 1, options_.algorithm}, reduced);
  prepare_gradients(builder_,
                    {.lane = nccl_,
                     .shards = shards(),
                     .width = element_ / parameter_element(job_.precision),
                     .slower = step_slowdown(job_, node_),
                     .algorithm = options_.algorithm},
                    reduced);
  const OpId step =
      optimizer(builder_, optimizer_time(builder_, shards(), node_), std::move(reduced));
  update(builder_, step, trained(job_, shards()));
  Bytes all;
  for (const Bucket& bucket : buckets_) all += bucket.size;
  builder_.copy("zeros to gradients", all, {{step}});
  if (options_.use_distributed_optimizer) gather_parameters(step);
  quantize_weights(builder_, step);
}

/// In the order in which the next forward needs them.
void BufferedGradients::gather_parameters(OpId step) {
  double stored = parameter_element(job_.precision) / element_;
  if (options_.fp8_param_gather && job_.precision == Precision::fp8)
    stored *= 1 - job_.model.narrow_parameters() / static_cast<double>(job_.model.parameters()) / 2;
  const auto& order = plan_.order;
  const auto begins = std::ranges::find(order, PipelineAction::forward, &PipelineAction::what);
  for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
    for (std::size_t bucket = first_bucket_[part + 1]; bucket-- > first_bucket_[part];) {
      const auto& [size, first_unit, experts, wakes] = buckets_[bucket];
      if (experts && replicas_of(experts) == 1) continue;
      const OpId gather =
          exchange(CollectiveKind::all_gather, "parameters of bucket " + std::to_string(bucket),
                   stored * size, experts, step);
      if (!options_.overlap_param_gather) {
        await(plan_.parts[begins->chunk].first, gather);
        continue;
      }
      for (std::size_t unit = first_unit; unit < end_of(bucket, part); ++unit) await(unit, gather);
    }
  }
}

/// Behind the last unit with a parameter in the bucket: a unit's may lie in two.
std::size_t BufferedGradients::end_of(std::size_t bucket, std::size_t part) const {
  for (std::size_t later = bucket; later-- > first_bucket_[part];)
    if (buckets_[later].experts == buckets_[bucket].experts) return buckets_[later].first_unit + 1;
  return plan_.parts[part].end;
}

/// The unit's first forward of the next step comes behind it.
void BufferedGradients::await(std::size_t unit, OpId gather) {
  if (first_forward_[unit]) builder_[*first_forward_[unit]].after.push_back({gather, 1});
}

}  // namespace

Program megatron_ddp(const MegatronDdp& options, const RankJob& rank) {
  check(rank.job.stage != nullptr, "Megatron-LM's replicas are those of a layout");
  ProgramBuilder builder(rank.name, rank.costs, rank.job);
  BufferedGradients sync(options, rank, builder);
  return walk(*rank.job.stage, builder, sync);
}

}  // namespace rehearse::inline strategy
