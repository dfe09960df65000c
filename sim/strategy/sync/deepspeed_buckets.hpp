#pragma once

#include <array>
#include <string>
#include <vector>

#include "strategy/holdings.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

/// The hooks of DeepSpeed's ZeRO-1 and ZeRO-2 beside walk(): buckets in deepspeed_buckets.cpp, the
/// step in deepspeed_step.cpp.
class DeepspeedZero12 : public Sync {
 public:
  DeepspeedZero12(const DeepspeedBuckets& options, const RankJob& rank, const StagePlan& plan,
                  ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        plan_(plan),
        builder_(builder),
        nccl_(builder.lane("nccl", LaneKind::communication)),
        element_(parameter_element(rank.job.precision)),
        shards_(shards_of(rank.job, plan)) {
    const double experts = expert_bytes(job_.model, job_.precision) / element_;
    const double all = parameter_bytes(job_.model, job_.precision) / element_;
    kinds_[0].part = (all - experts) / static_cast<double>(shards_.all);
    kinds_[1].part = experts / static_cast<double>(shards_.experts);
    kinds_[0].ranks = shards_.all;
    kinds_[1].ranks = shards_.experts;
    kinds_[1].group = plan.expert_replicas_group.value_or(0);
  }

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  std::vector<After> before_backward(std::size_t unit, const Pass& pass) override;
  Gradients gradients(const Pass& pass) const override;
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void after_pass(const Pass& pass) override;
  void step() override;

 private:
  /// Parameters that the same ranks share: experts' may be of others.
  struct Kind {
    double part = 0;  ///< elements of a rank's part
    std::int64_t ranks = 1;
    std::size_t group = 0;
    double filled = 0;  ///< elements of the bucket
    double passed = 0;  ///< elements of this pass that are in a bucket, or have been
  };

  static Shards shards_of(const Job& job, const StagePlan& plan) {
    const auto all = static_cast<std::int64_t>(job.replicas());
    return {all,
            plan.expert_replicas_group ? static_cast<std::int64_t>(plan.expert_replicas) : all};
  }
  double capacity() const { return static_cast<double>(options_.reduce_bucket_size); }
  /// PipelineEngine warns that it does not overlap, and reduces behind the last backward.
  bool overlaps() const { return options_.overlap_comm && !plan_.pipelined(); }
  /// Gradients go into buckets in the backward that makes them.
  bool fills(const Pass& pass) const {
    return options_.partitions_gradients || (overlaps() && pass.last);
  }
  bool keeps_partition() const { return !job_.optimizer.offloads(); }
  Bytes part_bytes() const { return own_bytes(job_, shards_); }

  void take_buckets(OpId backward);
  void fill(std::size_t unit, OpId ready);
  void fill_from_grads();
  void copy_into_bucket();
  void flush();
  void reduce(Kind& kind, const std::string& name);
  bool is_cut(const Kind& kind) const;
  void move(const std::string& what, Bytes moved);
  void finish_pass();
  void prepare(std::vector<After>& ready);
  double largest() const;
  std::vector<Trained> parts() const;
  void update_part(std::vector<After> ready);
  void gather_parameters();
  std::uint32_t owner() const { return builder_.program.tensors[own_.index()].owner; }

  const DeepspeedBuckets& options_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder& builder_;
  LaneId nccl_;
  Bytes element_;
  Shards shards_;
  std::array<Kind, 2> kinds_;
  std::vector<TensorId> buckets_;  ///< taken in each pass
  TensorId own_{}, added_{};
  bool taken_ = false, filled_ = false;
  bool adds_ = false;                 ///< this pass to what has come of this rank's part before
  double copied_ = 0;                 ///< elements that are in the bucket, and not yet copied
  OpId ready_{};                      ///< what the bucket's last gradient came with
  std::vector<std::size_t> waiting_;  ///< units whose own gradients wait for the bucket
  std::vector<After> reduced_;        ///< the last reduction, on its stream
  std::vector<After> awaited_;        ///< what the next computation waits for
  OpId step_{};
};

}  // namespace rehearse::inline strategy
