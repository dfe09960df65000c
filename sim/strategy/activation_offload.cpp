// Activations that wait for backward in host memory, as torchtune's OffloadActivations has them
// with its streams (torchtune/training/_activation_offloading.py): the inputs of checkpointed
// units.
#include <algorithm>

#include "strategy/activation_offload.hpp"

namespace rehearse::inline strategy {

namespace {

/// Tensors on their way to the host that stay on the GPU, too (max_fwd_stash_size).
constexpr std::size_t kMostLeaving = 5;

}  // namespace

bool ActivationOffload::moves(std::size_t unit) const {
  return builder_.job().offloads_activations && builder_.job().device == TapeDevice::cuda &&
         builder_.job().is_checkpointed(unit) && !inputs(unit).empty();
}

OpId ActivationOffload::host_copy(const std::string& what, std::size_t unit,
                                  std::vector<After> after) {
  if (!copies_) copies_ = builder_.lane("copies", LaneKind::communication);
  if (const auto before = builder_.last_on_host()) after.push_back({*before});
  Bytes size;
  for (const TensorId id : inputs(unit)) size += builder_.program.tensors[id.index()].size;
  const Seconds time = builder_.costs().host_rate > BytesPerSecond(0)
                           ? size / builder_.costs().host_rate
                           : Seconds(0);
  builder_.add({.verb = Verb::copy,
                .of = "to " + what + ", input of " + builder_.job().model.units[unit].name,
                .moves = size,
                .phase = Phase::communication,
                .lane = copies_,
                .work = Compute{.duration = time, .jittered = false},
                .after = std::move(after)});
  return builder_.last();
}

void ActivationOffload::move_out(std::size_t unit) {
  std::vector<After> after;
  if (const auto before = builder_.last_computed()) after.push_back({*before});
  const OpId copy = host_copy("host", unit, std::move(after));
  leaving_.emplace_back(unit, copy);
}

void ActivationOffload::free_moved(OpId op) {
  for (; leaving_.size() > kMostLeaving; leaving_.erase(leaving_.begin())) {
    const auto& [unit, copy] = leaving_.front();
    builder_[op].after.push_back({copy});
    for (const TensorId id : inputs(unit)) builder_.give(op, id);
  }
}

/// The last unit's input has not left yet. Others come once the backward before the last is over.
void ActivationOffload::move_in(std::size_t unit, std::vector<After>& after) {
  const bool stays =
      std::ranges::any_of(leaving_, [&](const auto& one) { return one.first == unit; });
  if (stays) return;
  std::vector<After> behind;
  if (before_last_) behind.push_back({*before_last_});
  const OpId copy = host_copy("GPU", unit, std::move(behind));
  for (const TensorId id : inputs(unit)) builder_.take(copy, id);
  after.push_back({copy});
}

/// What has come stays until the next one's backward is over.
void ActivationOffload::end_moved(std::size_t unit, OpId op) {
  const auto free = [&](std::size_t which) {
    for (const TensorId id : inputs(which)) builder_.give(op, id);
  };
  for (const auto& [which, copy] : leaving_)
    if (which != unit) free(which);
  leaving_.clear();
  if (returned_) free(*returned_);
  returned_ = unit;
  before_last_ = last_returned_;
  last_returned_ = op;
  for (std::size_t below = 0; below < unit; ++below)
    if (moves(below)) return;
  free(unit);
  returned_.reset();
  before_last_.reset();
  last_returned_.reset();
}

}  // namespace rehearse::inline strategy
