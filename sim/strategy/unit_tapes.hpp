#pragma once

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "model/memory_tape.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline strategy {

class ProgramBuilder;

/// What becomes of the parameters' gradients as a backward pass makes them.
enum class Gradients {
  kept,       ///< they become `.grad` and stay until give_gradients()
  summed,     ///< products add to what is there already; others' are added to it and given back
  added,      ///< each is added to what is there already (or copied into a bucket) and given back
  collected,  ///< they stay, and the strategy gives them back itself
  used  ///< the optimizer takes its step with each as soon as it is there, and it goes at once
};

/// The model's memory tape in tensors of a program, once for each micro-batch in flight: what a
/// unit's passes take and give back.
class UnitTapes {
 public:
  /// `leaves`: parameters are tensors of their own, of which autocast caches its copies
  /// (at::autocast::cached_cast asks for leaves); of views of flat ones it does not.
  UnitTapes(ProgramBuilder& builder, bool leaves) : builder_(builder), leaves_(leaves) {}
  /// Makes the tensors.
  void read();

  /// Of several micro-batches in flight, the one whose tensors the next operations are about.
  void use_slot(std::size_t slot) { slot_ = slot; }
  void note_forward(OpId op, std::size_t unit);
  /// The host waits for the GPU: what was recorded on other streams may be reused.
  void host_waits(OpId op);
  void note_recompute(OpId op, std::size_t unit);
  /// Of a backward in two parts, the first. What forward has kept stays until the second.
  void note_backward_input(OpId op, std::size_t unit);
  /// `whole`: it is no second part, in front of which the chunk's gradient was sent.
  void note_backward(OpId op, std::size_t unit, Gradients gradients, bool whole);

  /// What one of the model's chunks is given, and what it hands over: activations, or gradients.
  Bytes received_size(std::size_t chunk, bool forward) const;
  Bytes sent_size(std::size_t chunk, bool forward) const;
  /// Takes memory for what is received, and gives back what was sent.
  void receive(std::size_t chunk, bool forward, OpId op);
  void sent(std::size_t chunk, bool forward, OpId op);

  /// The unit's gradients as tensors, in the order in which its backward makes them.
  const std::vector<TensorId>& gradients(std::size_t unit) const {
    return tapes_[0][unit].gradients;
  }
  /// The one that reaches its AccumulateGrad last. A linear layer makes its weight's before its
  /// bias's, but that goes through the transposition's node first.
  TensorId last_ready(std::size_t unit) const { return tapes_[0][unit].last_ready; }
  /// zero_grad(): what `Gradients::kept` kept goes, unless `set_to_none` is false.
  void give_gradients(OpId op);
  /// Inputs of these checkpointed units, and the gradients that their backwards hand on, stay until
  /// the first unit's backward is over.
  void keep_until_end(const std::vector<std::size_t>& units);
  /// Of a checkpointed unit whose inputs wait for backward in host memory: these.
  const std::vector<TensorId>& inputs(std::size_t unit) const { return tapes_[slot_][unit].inputs; }

 private:
  /// A unit's part of the model's memory tape, in tensors of the program.
  struct UnitEvents {
    std::vector<TensorEvent> forward, recompute, backward;
    std::vector<TensorId> gradients;        ///< as they stay
    std::vector<std::uint32_t> parameters;  ///< whose they are, into Unit::tensors
    std::vector<TensorId> inputs;           ///< of a checkpointed unit, kept until its backward
    std::vector<bool> products;             ///< and whether a product of a linear layer makes them
    TensorId last_ready{};                  ///< the one whose AccumulateGrad comes last
    std::vector<TensorId> incoming;         ///< as they are made where they do not
  };

  /// What a chunk receives and sends.
  struct ChunkTensors {
    std::optional<TensorId> received, sent, received_gradient, sent_gradient;
    bool keeps_sent = false;  ///< ChunkTape's
  };

  void read_once(const MemoryTape& tape);
  std::vector<TensorId> tensors_of(const MemoryTape& tape);
  void add_incoming(std::size_t unit);
  void add_given_tape(std::size_t unit);
  void add_gradients(std::size_t unit);
  void add_tape(std::size_t unit, const MemoryTape& tape, const std::vector<TensorId>& ids);
  void add_chunk(std::size_t chunk, const MemoryTape& tape, const std::vector<TensorId>& ids);
  void add_given_chunk(std::size_t chunk);
  std::size_t last_of_chunk(std::size_t unit) const;
  void checkpoint(std::size_t unit);
  std::vector<TensorId> made_before(std::size_t unit);
  std::vector<TensorId> handed_on(std::size_t unit);
  /// The host launches a pass, and the GPU does it some time later.
  void pass(Seconds launch, Seconds computes);
  /// A unit's backward, which gave back what travels.
  void note_recorded(OpId op, std::size_t unit);
  /// Notes what the host can see to be over.
  void note_finished(OpId op);
  /// What the backward of the unit's chunk sends.
  std::optional<TensorId> sent_gradient(std::size_t unit) const;
  bool begins_chunk(std::size_t unit) const;
  UnitEvents& events(std::size_t unit) { return tapes_[slot_][unit]; }

  ProgramBuilder& builder_;
  bool leaves_;
  std::set<TensorId> cached_;  ///< autocast's copies in its cache
  std::vector<std::pair<TensorId, std::size_t>> cached_until_end_;  ///< and who made it
  std::vector<std::vector<UnitEvents>> tapes_;                      ///< by slot and unit
  std::vector<std::vector<ChunkTensors>> chunks_;                   ///< by slot and chunk
  std::vector<TensorId> first_ids_;  ///< of the first slot, by the tape
  std::size_t slot_ = 0;

  /// Given back while a collective's stream still works on it.
  struct Recorded {
    TensorId tensor;
    Seconds launched, done;  ///< by the host's clock, and by the GPU's
  };
  std::deque<Recorded> recorded_;
  std::set<TensorId> recordable_;
  Seconds host_{0}, gpu_{0};  ///< since the host last waited
};

}  // namespace rehearse::inline strategy
