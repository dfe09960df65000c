#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategy/buckets.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

inline constexpr Bytes kMiB(1024.0 * 1024.0);

/// What of a kind's options says how gradients go in buckets.
struct BucketOptions {
  Bytes first, cap;               ///< that the first bucket, and each other, holds at the least
  bool tensor_by_tensor = false;  ///< each is a bucket at first (Refine says what goes together)
  bool views = false;             ///< gradients alias the buckets
  double sent = 1;                ///< width of what travels, of an element as it is stored
  bool hooked = false;            ///< a hook makes what travels, and divides that
  bool overlaps = true;           ///< buckets go as they fill; else all behind backward
  Seconds per_collective{0};      ///< on its stream beside its own
  int gradient_accumulation = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  bool shares_step = false;  ///< each rank updates its share of the parameters
};

/// By part of the plan.
using PartBuckets = std::vector<std::vector<Bucket>>;
/// Makes other buckets of those of a part.
using Refine = std::function<std::vector<Bucket>(std::vector<Bucket>, const StagePlan::Part&)>;

PartBuckets cut_buckets(const BucketOptions& options, const RankJob& rank, const StagePlan& plan,
                        const Refine& refine = {});
/// With what the reducer takes the host. Buckets are reduced in the last of several micro-batches,
/// whose costs are those of the others.
StepCosts with_reducer(StepCosts costs, const Job& job, const BucketOptions& options,
                       const StagePlan& plan, const PartBuckets& buckets);
/// Of a rank's replicas: its layout's, or those of one GPU.
StagePlan plan_of(const RankJob& rank, int micro_batches);

/// Hooks that all-reduce each bucket of gradients when its last one is ready, beside the rest of
/// the backward pass, or behind it.
class BucketReduction : public Sync {
 public:
  BucketReduction(const BucketOptions& options, const RankJob& rank, const StagePlan& plan,
                  const PartBuckets& buckets, ProgramBuilder& builder);

  void setup() override;
  Gradients gradients(const Pass& pass) const override;
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void after_pass(const Pass& pass) override;
  void step() override;

 protected:
  /// What a bucket's exchange waits for, that is filled.
  virtual std::vector<After> once_filled(std::size_t /*bucket*/, OpId filled) { return {{filled}}; }
  /// Each bucket is updated by itself, behind its own reduction.
  virtual bool crosses_steps() const { return false; }
  virtual void before_step(const std::vector<After>& /*reduced*/) {}
  virtual void after_step(OpId /*step*/) {}

  std::optional<OpId> wait(std::optional<LaneId> lane, const char* what, Seconds time,
                           std::vector<After> after);
  void rebuild_buckets(OpId step);

  const BucketOptions options_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder& builder_;
  LaneId nccl_;
  std::vector<Bucket> buckets_;
  std::vector<After> ready_;  ///< of this step: gradients are where the optimizer finds them

 private:
  /// One GPU alone is trained without a reducer.
  bool views() const { return options_.views && job_.replicas() > 1; }
  After reduce(std::size_t bucket, OpId backward);
  std::optional<OpId> copy(const std::string& what, Bytes moved, After after);
  Bytes sent(std::size_t bucket) const { return buckets_[bucket].size * options_.sent; }
  Bytes moved_to_convert(std::size_t bucket) const;
  Bytes moved_into(std::size_t bucket) const;
  Bytes moved_out_of(std::size_t bucket) const;
  void hold_first_buckets(std::optional<bool> experts, std::uint32_t owner);
  void hold_views_of_experts(std::uint32_t owner);

  std::optional<LaneId> expert_nccl_;
  Bytes element_;
  std::vector<std::size_t> first_bucket_;  ///< by part of the plan, and all
  std::vector<TensorId> first_buckets_, bucket_tensors_;
  std::vector<After> reduced_;  ///< of this pass
};

/// A rank's program by `Hooks`, which are made of a kind's own options beside those of buckets.
template <class Hooks, class Own>
Program reduce_in_buckets(const Own& own, const BucketOptions& options, const RankJob& rank,
                          const Refine& refine = {}) {
  const StagePlan plan = plan_of(rank, options.gradient_accumulation);
  const PartBuckets buckets = cut_buckets(options, rank, plan, refine);
  const StepCosts costs = with_reducer(rank.costs, rank.job, options, plan, buckets);
  ProgramBuilder builder(rank.name, costs, rank.job);
  Hooks sync(own, options, rank, plan, buckets, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
