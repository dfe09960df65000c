// Gradients that another library than PyTorch reduces: Horovod's background thread (Sergeev and Del
// Balso, 2018), ByteScheduler's slices and order over it, and graphs that reduce behind backward.
#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/holdings.hpp"
#include "strategy/sync/bucket_reduction.hpp"

namespace rehearse::inline strategy {

namespace {

/// Of tensors that are buckets of their own, those that are ready within a cycle of Horovod's
/// thread go together, up to its buffer's size (horovod/common/controller.cc, FuseResponses).
std::vector<Bucket> fused(const std::vector<Bucket>& tensors, const Horovod& options,
                          const StepCosts& costs, std::size_t end) {
  std::vector<Bucket> fused;
  Seconds ready;
  std::size_t next = end;
  double cycle = -1;
  for (const Bucket& tensor : tensors) {
    while (next > tensor.first_unit) ready += costs.units[--next].backward;
    const double at = std::floor(ready / options.cycle_time);
    const bool fits =
        !fused.empty() && fused.back().size + tensor.size <= options.bucket_cap_mb * kMiB;
    if (at == cycle && fits) {
      fused.back().size += tensor.size;
      fused.back().first_unit = tensor.first_unit;
    } else {
      fused.push_back(tensor);
      fused.back().wakes = at != cycle;
    }
    cycle = at;
  }
  return fused;
}

/// Equal slices of those that are larger than a partition.
std::vector<Bucket> sliced(const std::vector<Bucket>& whole, Bytes partition) {
  if (partition <= Bytes(0)) return whole;
  std::vector<Bucket> slices;
  for (const Bucket& bucket : whole) {
    const auto parts = static_cast<std::size_t>(std::ceil(bucket.size / partition));
    for (std::size_t i = 0; i < parts; ++i) {
      slices.push_back(bucket);
      slices.back().size = bucket.size / static_cast<double>(parts);
      slices.back().wakes = bucket.wakes && i == 0;
    }
  }
  return slices;
}

class HorovodReduction : public BucketReduction {
 public:
  HorovodReduction(const Horovod& own, const BucketOptions& options, const RankJob& rank,
                   const StagePlan& plan, const PartBuckets& buckets, ProgramBuilder& builder)
      : BucketReduction(options, rank, plan, buckets, builder),
        own_(own),
        first_forward_(rank.job.model.units.size()) {}

  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  void step() override;

 private:
  std::vector<After> once_filled(std::size_t bucket, OpId filled) override;
  bool crosses_steps() const override { return own_.by_priority && job_.replicas() > 1; }
  void before_step(const std::vector<After>& reduced) override;
  void step_by_bucket();

  const Horovod own_;
  std::optional<LaneId> cycle_lane_;
  std::optional<OpId> woken_;                       ///< of the last cycle
  std::vector<std::optional<OpId>> first_forward_;  ///< by unit: the first operation of a step
  std::size_t begun_ = 0;                           ///< the operation that this forward began with
};

std::vector<After> HorovodReduction::before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
  begun_ = builder_.program.ops.size();
  return {};
}

void HorovodReduction::after_forward(std::size_t unit, OpId /*forward*/, const Pass& /*pass*/) {
  if (first_forward_[unit]) return;
  const auto& ops = builder_.program.ops;
  const auto first = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(begun_), ops.end(),
                                  [](const Op& op) { return op.phase == Phase::forward; });
  first_forward_[unit] = OpId(static_cast<std::size_t>(first - ops.begin()));
}

/// Horovod's thread wakes half a cycle later in the mean.
std::vector<After> HorovodReduction::once_filled(std::size_t bucket, OpId filled) {
  if (own_.cycle_time <= Seconds(0)) return {{filled}};
  if (!cycle_lane_) cycle_lane_ = builder_.lane("cycles", LaneKind::communication);
  if (buckets_[bucket].wakes || !woken_)
    woken_ = wait(*cycle_lane_, "cycle", 0.5 * own_.cycle_time, {{filled}});
  std::vector<After> after = {{filled}};
  if (woken_) after.push_back({*woken_});
  return after;
}

/// optimizer.step() waits on the host for every handle (horovod/torch/mpi_ops_v2.cc, WaitAndClear),
/// so that what follows is launched behind them.
void HorovodReduction::before_step(const std::vector<After>& reduced) {
  if (own_.cycle_time > Seconds(0) && job_.replicas() > 1) builder_.block_host("handles", reduced);
}

void HorovodReduction::step() {
  if (crosses_steps()) return step_by_bucket();
  BucketReduction::step();
}

/// Each bucket's parameters are updated beside what the GPU computes, and the first forward that
/// needs them waits for it in the next step.
void HorovodReduction::step_by_bucket() {
  const std::vector<After> reduced = std::exchange(ready_, {});
  const OpId last = *builder_.last_computed();
  update(builder_, last, trained(job_));
  builder_.tapes().give_gradients(last);
  rebuild_buckets(last);
  Bytes all;
  for (const Bucket& bucket : buckets_) all += bucket.size;
  const Seconds time = optimizer_time(builder_, 1, node_);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    builder_.add({.verb = Verb::optimizer,
                  .of = "bucket " + std::to_string(bucket),
                  .phase = Phase::optimizer,
                  .work = Compute{.duration = time * (buckets_[bucket].size / all)},
                  .after = {reduced[bucket]}});
    if (const auto forward = first_forward_[buckets_[bucket].first_unit])
      builder_[*forward].after.push_back({builder_.last(), 1});
  }
}

/// What travels, of an element as it is stored.
double sent_width(const Horovod& options, Precision precision) {
  const Bytes element = parameter_element(precision);
  if (options.compression == Horovod::Compression::none) return 1;
  if (options.compression == Horovod::Compression::activations)
    return std::min(1.0, activation_element(precision) / element);
  return 2 / element.value();
}

}  // namespace

Program horovod(const Horovod& options, const RankJob& rank) {
  const bool cycles = options.cycle_time > Seconds(0);
  const double sent = sent_width(options, rank.job.precision);
  const bool casts = options.compression == Horovod::Compression::activations;
  return reduce_in_buckets<HorovodReduction>(
      options,
      {.first = options.first_bucket_mb * kMiB,
       .cap = options.bucket_cap_mb * kMiB,
       .tensor_by_tensor = cycles,
       .sent = sent,
       .hooked = casts ? sent != 1 : options.compression != Horovod::Compression::none,
       .overlaps = options.overlap_grad_reduce,
       .per_collective = options.per_collective,
       .gradient_accumulation = options.gradient_accumulation,
       .algorithm = options.algorithm},
      rank, [&](std::vector<Bucket> buckets, const StagePlan::Part& part) {
        if (cycles) buckets = fused(buckets, options, rank.costs, part.end);
        return sliced(buckets, options.partition);
      });
}

}  // namespace rehearse::inline strategy
