// The step of DeepSpeed's ZeRO-1 and ZeRO-2: fp32 parts, their norm, and the gathered parameters.
#include <algorithm>
#include <cmath>
#include <utility>

#include "strategy/sync/deepspeed_buckets.hpp"

namespace rehearse::inline strategy {
namespace {

/// Bytes that DeepSpeed's step moves for each gradient of 16 bits in a look for infinities
/// (_has_inf_or_nan): float(), isnan(), isinf(), which is abs() and eq(), logical_or(), float(),
/// max(); and for their norm, in fp64 (get_grad_norm_direct), beside what it reads.
constexpr Bytes kLooks(6 + 5 + 13 + 3 + 5 + 4), kNorm(8 + 8);

}  // namespace

/// A look for infinities in 16 bits and a norm in any case, of each gradient by itself. Then what
/// the optimizer reads, in fp32 and scaled, for which all of the part is put together.
void DeepspeedZero12::prepare(std::vector<After>& ready) {
  const double elements = part_bytes() / element_;
  const auto pass = [&](Verb verb, const char* what, Bytes moved, double slower = 1) {
    const Seconds time = slower * builder_.costs().copy_time(moved);
    if (time <= Seconds(0)) return false;  // times are given: they have it
    ready = {{builder_.kernel(verb, what, Phase::optimizer, time, std::move(ready))}};
    return true;
  };
  const GradientPasses how{.lane = nccl_, .shards = shards_, .algorithm = options_.algorithm};
  if (element_ < Bytes(4) && pass(Verb::unscale, "gradients, looked at", elements * kLooks)) {
    add_up(builder_, "infinities in gradients", how, ready);
    builder_.block_host("infinities in gradients", ready);
  }
  if (pass(Verb::clip, "gradients, norm", elements * (kNorm + element_))) {
    const TensorId wide =
        builder_.tensor(MemoryKind::workspace, std::min(largest(), elements) * Bytes(8), owner());
    builder_.take(ready.back().op, wide);
    builder_.give(ready.back().op, wide);
    add_up(builder_, "norm of gradients", how, ready);
  }
  if (keeps_partition()) pass(Verb::copy, "gradients, flat", 2 * part_bytes());
  pass(Verb::clip, "gradients", elements * Bytes(8), step_slowdown(job_, node_));
}

/// Elements of the largest gradient.
double DeepspeedZero12::largest() const {
  std::int64_t most = 0;
  for (const Unit& unit : job_.model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained) most = std::max(most, unit.tensors[i]);
  return static_cast<double>(most);
}

/// One tensor for all that is stored alike, as each of DeepSpeed's groups has.
std::vector<Trained> DeepspeedZero12::parts() const {
  std::map<StoredAs, Trained> all;
  for (const Trained& one : trained(job_, shards_)) {
    Trained& part =
        all.try_emplace(one.storage, Trained{0, owner(), one.storage, {}}).first->second;
    part.elements += one.elements;
  }
  std::vector<Trained> parts;
  for (const auto& [storage, part] : all) parts.push_back(part);
  return parts;
}

/// Gradients of a part are flat, then in fp32, and go as they were; where a part has been a copy of
/// parameters in the same type it is copied back.
void DeepspeedZero12::update_part(std::vector<After> ready) {
  Seconds time = optimizer_time(builder_, shards_, node_);
  if (!keeps_partition() && job_.optimizer.offload_overlap == OffloadOverlap::none)
    time -= part_bytes() / node_.pcie.bandwidth;  // backward has sent them
  step_ = optimizer(builder_, time, std::move(ready));
  if (keeps_partition()) {
    const Bytes master = optimizer_memory(job_.optimizer).master_element;
    const Bytes wide = std::max(master, element_) * (part_bytes() / element_);
    const TensorId flat = builder_.tensor(MemoryKind::gradients, part_bytes(), owner());
    const TensorId read = builder_.tensor(MemoryKind::gradients, wide, owner());
    builder_.take(step_, flat);
    if (master > element_) builder_.take(step_, read);
    builder_.give(step_, own_);
    if (master > element_) builder_.give(step_, flat);
    update(builder_, step_, parts(), {.are_there = true});
    builder_.give(step_, master > element_ ? read : flat);
    if (master == Bytes(0))
      if (const auto copied = builder_.copy("part to parameters", 2 * part_bytes(), {{step_}}))
        step_ = *copied;
  } else {
    builder_.give(step_, own_);
  }
  quantize_weights(builder_, step_);
}

/// In front of the next forward: each kind's all at once.
void DeepspeedZero12::gather_parameters() {
  OpId last = step_;
  for (const Kind& kind : kinds_) {
    const double elements = kind.part * static_cast<double>(kind.ranks);
    if (elements == 0 || kind.ranks == 1) continue;
    last = builder_.collective(nccl_, &kind == &kinds_[1] ? "parameters of experts" : "parameters",
                               {.kind = CollectiveKind::all_gather,
                                .group = kind.group,
                                .size = elements * element_,
                                .algorithm = options_.algorithm},
                               {{last}});
    builder_[last].remark = ", updated";
  }
  const auto first = std::ranges::find(builder_.program.ops, Phase::forward, &Op::phase);
  if (first != builder_.program.ops.end()) first->after.push_back({last, 1});
  awaited_ = {{last}};
}

void DeepspeedZero12::step() {
  if (!options_.partitions_gradients && !overlaps()) fill_from_grads();
  std::vector<After> ready = std::exchange(awaited_, {});
  finish_gradients(builder_,
                   {nccl_, element_, static_cast<double>(shards_.all), options_.algorithm}, ready);
  prepare(ready);
  update_part(std::move(ready));
  gather_parameters();
}

}  // namespace rehearse::inline strategy
