#pragma once

#include <optional>
#include <vector>

#include "strategy/program_builder.hpp"
#include "strategy/sync/flat_parameters.hpp"

namespace rehearse::inline strategy {

/// The flat tensors of FSDP's units, as torch.distributed.fsdp takes and gives them back on GPUs
/// (all_gathers into the pool of their own stream, reductions into that of another, both given back
/// while they are in use), and the calibrator's trainer on CPUs (calibrate/train/flat_unit.cpp).
class FsdpMemory {
 public:
  /// All references outlive it.
  FsdpMemory(ProgramBuilder& builder, const ShardedParameters& options,
             const std::vector<FlatParameter>& runs, const Shards& shards);

  /// Bytes of a run's elements, and of a rank's share as it is stored.
  static Bytes whole(const FlatParameter& run, Bytes element) {
    return static_cast<double>(run.elements + run.experts) * element + run.others;
  }
  static Bytes gradients(const FlatParameter& run, Bytes element) {
    if (run.storage == StoredAs::fp32) element = Bytes(4);
    return static_cast<double>(run.graded + run.trained_experts) * element;
  }
  /// Of a whole run, what a rank keeps between forward and backward
  /// (TorchFsdp2::post_forward_group).
  static Bytes part_after_forward(const ShardedParameters& options, Bytes whole) {
    return options.post_forward_group > 0 ? whole / options.post_forward_group : Bytes(0);
  }
  Bytes stored(std::size_t run) const;
  Bytes gathered_element() const { return gathered_element_; }
  Bytes reduced_element() const { return reduced_element_; }

  void hold();
  /// Of a step; in the first there is no `.grad` to add to.
  void begin_micro_batch(bool first) { first_ = first; }
  /// The run's share is copied from the host for its all_gather.
  void copy_in(std::size_t run, OpId op) { builder_.take(op, tensors_[run].copied); }
  void gather(std::size_t run, OpId op, bool backward);
  /// The host has waited for the run's all_gather. FSDP2 makes its parameters now, of what was
  /// gathered (_fsdp_collectives.py: foreach_all_gather_copy_out). On a CPU only now it is certain
  /// that Gloo's thread has given back the flat copy into which it gathers: the computation beside
  /// a gather that was issued ahead finds it there.
  void finish_gather(std::size_t run);
  /// After the run's forward `op`, before free(): the part that backward gathers from.
  void keep_part(std::size_t run, OpId op) { builder_.take(op, tensors_[run].part); }
  /// Gives the whole run back; what of it the host knows to be unused once `op` is over.
  std::vector<TensorId> free(std::size_t run, OpId op);
  /// Before the run's backward, behind `op`: the buffer that products add its gradients to.
  void begin_gradients(std::size_t run, OpId op) {
    builder_.note(op, {tensors_[run].flat, TensorEvent::Action::finish});
    builder_.take(op, tensors_[run].flat);
  }
  /// After the run's last backward `op`: its gradients become one flat tensor, and the run is freed
  /// as by free().
  std::vector<TensorId> collect(std::size_t run, OpId op);
  void reduce(std::size_t run, OpId op);
  /// Under no_sync(): the whole gradients stay, or are added to those that did.
  void keep_whole(std::size_t run, OpId op, bool first);
  /// The last micro-batch's are added to them, and go where reduce() takes them from.
  void add_whole(std::size_t run, OpId op);
  /// The reduced share was copied to the host.
  void copy_out(std::size_t run, OpId op);
  /// The last reduction of a backward pass, of a CPU or under FSDP2, is over with this operation.
  void finish_reduce(OpId op);
  void finish(OpId op, const std::vector<TensorId>& tensors);
  /// Updates the shares and gives their gradients back.
  void update(OpId op);

 private:
  struct RunTensors {
    std::uint32_t owner = 0;
    TensorId gloo;                   ///< Gloo's own copy of what it gathers
    bool gathering = false;          ///< an all_gather was issued and not waited for
    TensorId copied, low_precision;  ///< of the share, for all_gather
    TensorId output;                 ///< FSDP2: what is gathered, before it is copied out
    TensorId part;                   ///< FSDP2: kept between forward and backward
    TensorId gathered_forward, gathered_backward;
    TensorId held;                  ///< the one of them that is whole now
    TensorId whole;                 ///< gradients of earlier micro-batches, under no_sync()
    TensorId flat, cast, received;  ///< gradients: whole, as sent, as received
    TensorId gradient, added;       ///< the share's `.grad`, and what is added to it
  };

  Bytes share_of(const FlatParameter& run, Bytes element) const;
  /// FSDP2 holds what it reduces until the next run's gradients are there, which it collects once
  /// that run is freed (_fsdp_param_group.py: post_backward, reduce_scatter_states).
  bool keeps_reduced() const { return on_gpu() && options_.held == ShardedParameters::Held::each; }
  /// Reduced gradients go to the host as they come, and the step is there.
  bool sends_gradients() const {
    return leaves_at_once() ||
           (on_gpu() && (options_.cpu_offload || builder_.job().optimizer.overlaps_backward()));
  }
  /// They are copied as they are reduced; the step has the copies' time.
  bool leaves_at_once() const {
    const Optimizer& optimizer = builder_.job().optimizer;
    return on_gpu() && options_.gradients_follow_optimizer && optimizer.offloads() &&
           !options_.cpu_offload && !optimizer.overlaps_backward();
  }
  bool on_gpu() const { return builder_.job().device == TapeDevice::cuda; }
  RunTensors make_tensors(std::size_t run);
  void keep_gradient(std::size_t run, OpId op);
  std::vector<TensorId> collected(std::size_t run) const;
  std::optional<TensorId> last_ready(std::size_t run) const;

  ProgramBuilder& builder_;
  const ShardedParameters& options_;
  const std::vector<FlatParameter>& runs_;
  Shards shards_;
  Bytes stored_element_, gathered_element_, reduced_element_;
  std::vector<RunTensors> tensors_;
  bool first_ = true;
  std::optional<std::size_t> reducing_;  ///< on a CPU, under FSDP2: whose reduction is under way
};

}  // namespace rehearse::inline strategy
