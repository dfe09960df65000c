// DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training", VLDB 2020): each bucket of gradients is all-reduced when its last one is
// ready, beside the rest of the backward pass. And what DeepSpeed does without ZeRO.
#include <algorithm>

#include "strategy/holdings.hpp"
#include "strategy/sync/bucket_reduction.hpp"

namespace rehearse::inline strategy {

namespace {

class TorchReducer : public BucketReduction {
 public:
  TorchReducer(const TorchDdp& own, const BucketOptions& options, const RankJob& rank,
               const StagePlan& plan, const PartBuckets& buckets, ProgramBuilder& builder)
      : BucketReduction(options, rank, plan, buckets, builder),
        gathers_(own.zero_redundancy_optimizer) {}

 private:
  void after_step(OpId step) override;

  bool gathers_;
};

/// Of ZeroRedundancyOptimizer. The next forward comes behind it.
void TorchReducer::after_step(OpId step) {
  if (!gathers_) return;
  const OpId gather = builder_.collective(nccl_, "parameters",
                                          {.kind = CollectiveKind::all_gather,
                                           .size = parameter_bytes(job_.model, job_.precision),
                                           .algorithm = options_.algorithm},
                                          {{step}});
  builder_[gather].remark = ", updated";
  const auto first = std::ranges::find(builder_.program.ops, Phase::forward, &Op::phase);
  if (first != builder_.program.ops.end()) first->after.push_back({gather, 1});
}
/// Without ZeRO DeepSpeed has no reducer, but one buffer for all.
class OneBuffer : public BucketReduction {
 public:
  OneBuffer(const DeepspeedAllreduce& /*own*/, const BucketOptions& options, const RankJob& rank,
            const StagePlan& plan, const PartBuckets& buckets, ProgramBuilder& builder)
      : BucketReduction(options, rank, plan, buckets, builder) {}
};

}  // namespace

Program torch_ddp(const TorchDdp& options, const RankJob& rank) {
  const bool hooked = options.compression != TorchDdp::Compression::none;
  const Bytes element = parameter_element(rank.job.precision);
  return reduce_in_buckets<TorchReducer>(options,
                                         {.first = options.first_bucket_mb * kMiB,
                                          .cap = options.bucket_cap_mb * kMiB,
                                          .views = options.gradient_as_bucket_view,
                                          .sent = hooked ? 2 / element.value() : 1,
                                          .hooked = hooked,
                                          .per_collective = options.per_collective,
                                          .gradient_accumulation = options.gradient_accumulation,
                                          .algorithm = options.algorithm,
                                          .shares_step = options.zero_redundancy_optimizer},
                                         rank);
}

/// In a layout it is what Megatron-LM does without overlap.
Program deepspeed_allreduce(const DeepspeedAllreduce& options, const RankJob& rank) {
  if (rank.job.stage)
    return megatron_ddp({.grad_reduce_in_fp32 = false,
                         .check_for_nan_in_grad = false,
                         .algorithm = options.algorithm},
                        rank);
  constexpr Bytes kAll(1e15);
  return reduce_in_buckets<OneBuffer>(options,
                                      {.first = kAll,
                                       .cap = kAll,
                                       .views = true,
                                       .gradient_accumulation = options.gradient_accumulation,
                                       .algorithm = options.algorithm},
                                      rank);
}

}  // namespace rehearse::inline strategy
