// A model's tape in the operations of a program: what becomes of messages and of gradients.
#include "strategy/layout/stage_plan.hpp"
#include "strategy/optimizer_step.hpp"
#include "strategy/unit_tapes.hpp"

namespace rehearse::inline strategy {
namespace {

using Action = TensorEvent::Action;

/// Kernels that wait in a stream before a launch holds up the host: about a thousand
/// (forums.developer.nvidia.com, topic 68937).
constexpr double kLaunchQueue = 1024;

}  // namespace

void UnitTapes::pass(Seconds launch, Seconds computes) {
  host_ += launch;
  gpu_ = std::max(gpu_, host_) + computes;
}

/// The allocator asks for the events of freed blocks whenever it is asked for memory. The host is
/// no more kernels ahead than its queue holds.
void UnitTapes::note_finished(OpId op) {
  const Seconds ahead = kLaunchQueue * builder_.costs().host_operator;
  while (!recorded_.empty()) {
    const Recorded& first = recorded_.front();
    const bool queue_is_full = ahead > Seconds(0) && first.launched + ahead < host_;
    if (first.done > host_ && !queue_is_full) return;
    builder_.note(op, {first.tensor, Action::finish});
    recorded_.pop_front();
  }
}

void UnitTapes::host_waits(OpId op) {
  for (const TensorId id : recordable_) builder_.note(op, {id, Action::finish});
  recorded_.clear();
  host_ = gpu_ = Seconds(0);
}

std::optional<TensorId> UnitTapes::sent_gradient(std::size_t unit) const {
  for (std::size_t chunk = 0; chunk < chunks_[slot_].size(); ++chunk)
    if (unit < builder_.job().model.chunks[chunk].end) return chunks_[slot_][chunk].sent_gradient;
  return std::nullopt;
}

bool UnitTapes::begins_chunk(std::size_t unit) const {
  return std::ranges::count(builder_.job().model.chunks, unit, &Chunk::first) > 0;
}

Bytes UnitTapes::received_size(std::size_t chunk, bool forward) const {
  if (chunks_[0].empty()) return Bytes(0);
  const ChunkTensors& own = chunks_[0][chunk];
  const auto& id = forward ? own.received : own.received_gradient;
  return id ? builder_.program.tensors[id->index()].size : Bytes(0);
}

Bytes UnitTapes::sent_size(std::size_t chunk, bool forward) const {
  if (chunks_[0].empty()) return Bytes(0);
  const ChunkTensors& own = chunks_[0][chunk];
  const auto& id = forward ? own.sent : own.sent_gradient;
  return id ? builder_.program.tensors[id->index()].size : Bytes(0);
}

void UnitTapes::receive(std::size_t chunk, bool forward, OpId op) {
  if (chunks_[slot_].empty()) return;
  const ChunkTensors& own = chunks_[slot_][chunk];
  const auto& id = forward ? own.received : own.received_gradient;
  if (!id) return;
  // Megatron-LM's p2p_communication.py: batch_p2p_sync, torch.cuda.synchronize() behind a batch.
  if (builder_.job().stage->waits_for_sends) host_waits(op);
  builder_.take(op, *id);
}

void UnitTapes::sent(std::size_t chunk, bool forward, OpId op) {
  if (chunks_[slot_].empty()) return;
  const ChunkTensors& own = chunks_[slot_][chunk];
  const auto& id = forward ? own.sent : own.sent_gradient;
  if (id && !(forward && own.keeps_sent)) builder_.give(op, *id);
}

void UnitTapes::give_gradients(OpId op) {
  if (!builder_.job().set_to_none) return;
  for (std::size_t unit = tapes_[0].size(); unit-- > 0;)
    for (const TensorId id : tapes_[0][unit].gradients) builder_.give(op, id);
}

void UnitTapes::note_forward(OpId op, std::size_t unit) {
  for (const TensorEvent& event : events(unit).forward) builder_.note(op, event);
  if (recordable_.empty()) return;
  pass(builder_.costs().units[unit].forward_launch, builder_.costs().units[unit].forward);
  note_finished(op);
  // Behind the loss Megatron-LM looks whether it is a number (pretrain_gpt.py: loss_func).
  const bool is_loss =
      unit + 1 == tapes_[0].size() && (chunks_[slot_].empty() || !chunks_[slot_].back().sent);
  if (is_loss) host_waits(op);
}

void UnitTapes::note_recompute(OpId op, std::size_t unit) {
  for (const TensorEvent& event : events(unit).recompute) builder_.note(op, event);
}

void UnitTapes::note_backward_input(OpId op, std::size_t unit) {
  if (const auto id = sent_gradient(unit); id && begins_chunk(unit)) builder_.take(op, *id);
}

/// What is added to a gradient goes once the kernels of its operator are through: before the next
/// tensor of another kind is taken.
void UnitTapes::note_backward(OpId op, std::size_t unit, Gradients gradients, bool whole) {
  const UnitEvents& own = events(unit);
  const auto sent_before = whole ? std::nullopt : sent_gradient(unit);
  const bool stay = gradients == Gradients::collected ||
                    (gradients == Gradients::kept && builder_.job().set_to_none);
  std::vector<std::size_t> passing;
  const auto add_up = [&] {
    for (const std::size_t which : passing) {
      builder_.give(op, own.incoming[which]);
      if (gradients == Gradients::kept)
        builder_.note(op, {own.gradients[which], Action::take, true});
    }
    passing.clear();
  };
  std::size_t made = 0;
  for (const TensorEvent& event : own.backward) {
    if (sent_before && event.tensor == *sent_before) continue;
    const bool is_gradient = made < own.gradients.size() && event.tensor == own.gradients[made];
    if (!is_gradient && event.action == Action::take) add_up();
    if (event.action == Action::take && recordable_.contains(event.tensor))
      builder_.note(op, {event.tensor, Action::finish});
    const bool joins = gradients == Gradients::summed && is_gradient &&
                       made < own.products.size() && own.products[made];
    if (joins) {
      ++made;
      continue;
    }
    if (is_gradient && gradients == Gradients::used) {
      builder_.note(op, event);
      update(builder_, op,
             {trained(builder_.job(), static_cast<std::uint32_t>(unit), own.parameters[made], 1)});
      builder_.give(op, event.tensor);
    } else if (!is_gradient || stay) {
      builder_.note(op, event);
    } else {
      builder_.take(op, own.incoming[made]);
      passing.push_back(made);
    }
    if (is_gradient) ++made;
  }
  add_up();
  note_recorded(op, unit);
}

void UnitTapes::note_recorded(OpId op, std::size_t unit) {
  if (recordable_.empty()) return;
  const UnitCost& cost = builder_.costs().units[unit];
  pass(cost.backward_launch, cost.backward);
  for (const TensorEvent& event : events(unit).backward)
    if (event.action == Action::give_in_use) recorded_.push_back({event.tensor, host_, gpu_});
  note_finished(op);
}

}  // namespace rehearse::inline strategy
