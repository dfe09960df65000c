// Activations that wait for backward in host memory, as torchtune's OffloadActivations has them
// with its streams (torchtune/training/_activation_offloading.py): the inputs of checkpointed
// units.
#include <algorithm>

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

namespace {

/// Tensors on their way to the host that stay on the GPU, too (max_fwd_stash_size).
constexpr std::size_t kMostLeaving = 5;

}  // namespace

bool ProgramBuilder::is_offloaded(std::size_t unit) const {
  return job_.offloads_activations && job_.device == TapeDevice::cuda &&
         job_.is_checkpointed(unit) && !tapes_[slot_][unit].inputs.empty();
}

OpId ProgramBuilder::host_copy(const std::string& what, std::size_t unit,
                               std::vector<After> after) {
  if (!copies_) copies_ = lane("copies", LaneKind::communication);
  if (last_on_host_) after.push_back({*last_on_host_});
  Bytes size;
  for (const TensorId id : events(unit).inputs) size += program.tensors[id.index()].size;
  const Seconds time = costs_.host_rate > BytesPerSecond(0) ? size / costs_.host_rate : Seconds(0);
  add({.verb = Verb::copy,
       .of = "to " + what + ", input of " + job_.model.units[unit].name,
       .moves = size,
       .phase = Phase::communication,
       .lane = copies_,
       .work = Compute{.duration = time, .jittered = false},
       .after = std::move(after)});
  return last();
}

void ProgramBuilder::move_out(std::size_t unit) {
  std::vector<After> after;
  if (has_computed_) after.push_back({last_computed_});
  const OpId copy = host_copy("host", unit, std::move(after));
  leaving_.emplace_back(unit, copy);
}

void ProgramBuilder::free_moved(OpId op) {
  for (; leaving_.size() > kMostLeaving; leaving_.erase(leaving_.begin())) {
    const auto& [unit, copy] = leaving_.front();
    program.ops[op.index()].after.push_back({copy});
    for (const TensorId id : events(unit).inputs) give(op, id);
  }
}

/// The last unit's input has not left yet. Others come once the backward before the last is over.
void ProgramBuilder::move_in(std::size_t unit, std::vector<After>& after) {
  const bool stays =
      std::ranges::any_of(leaving_, [&](const auto& one) { return one.first == unit; });
  if (stays) return;
  std::vector<After> behind;
  if (before_last_) behind.push_back({*before_last_});
  const OpId copy = host_copy("GPU", unit, std::move(behind));
  for (const TensorId id : events(unit).inputs) take(copy, id);
  after.push_back({copy});
}

/// What has come stays until the next one's backward is over.
void ProgramBuilder::end_moved(std::size_t unit, OpId op) {
  const auto free = [&](std::size_t which) {
    for (const TensorId id : events(which).inputs) give(op, id);
  };
  for (const auto& [which, copy] : leaving_)
    if (which != unit) free(which);
  leaving_.clear();
  if (returned_) free(*returned_);
  returned_ = unit;
  before_last_ = last_returned_;
  last_returned_ = op;
  for (std::size_t below = 0; below < unit; ++below)
    if (is_offloaded(below)) return;
  free(unit);
  returned_.reset();
  before_last_.reset();
  last_returned_.reset();
}

}  // namespace rehearse::inline strategy
