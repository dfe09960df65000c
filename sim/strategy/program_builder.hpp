#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strategy/side_by_side.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What becomes of the parameters' gradients as a backward pass makes them.
enum class Gradients {
  kept,       ///< they become `.grad` and stay until give_gradients()
  summed,     ///< products add to what is there already; others' are added to it and given back
  added,      ///< each is added to what is there already (or copied into a bucket) and given back
  collected,  ///< they stay, and the strategy gives them back itself
  used  ///< the optimizer takes its step with each as soon as it is there, and it goes at once
};

/// A tensor that the optimizer updates.
struct Trained {
  std::int64_t elements = 0;
  std::uint32_t owner = 0;
  StoredAs storage = StoredAs::model;
  std::optional<MatrixShape> matrix{};  ///< of a hidden layer, whole
};

/// Ranks that share what there is of parameters; of experts' others may (Megatron-LM's expert data
/// parallelism).
struct Shards {
  std::int64_t all = 1, experts = 1;

  Shards(std::int64_t ranks) : all(ranks), experts(ranks) {}  // NOLINT: most have no experts
  Shards(std::int64_t ranks, std::int64_t of_experts) : all(ranks), experts(of_experts) {}
};

/// How often the time of memory-bound kernels a node's CPUs take where each of its GPUs has them
/// compute as much.
double host_slowdown(const Node& node);

/// Writes a program operation by operation, in the order in which the host issues them, with the
/// tensors that it takes and gives back.
class ProgramBuilder {
 public:
  /// `computes`: what units compute in whose parameters are views of flat ones, which autocast does
  /// not cache its copies of (at::autocast::cached_cast asks for leaves); nothing: as stored.
  ProgramBuilder(std::string name, const StepCosts& costs, const Job& job,
                 std::optional<Precision> computes = std::nullopt);

  LaneId lane(std::string name, LaneKind kind);
  /// Appends an operation; the reference holds until the next call.
  Op& add(Op op);
  OpId last() const { return OpId(program.ops.size() - 1); }
  Op& operator[](OpId id) { return program.ops[id.index()]; }

  /// Begins micro-batch `index` of `count`. Those between the third and the last take and give back
  /// what the second does and are left out of the replay of memory.
  void micro_batch(int index, int count);
  /// Begins training step `index` of the `count` of an iteration: as micro_batch(), with a jitter
  /// of its own.
  void training_step(int index, int count);
  /// A unit's forward or backward on the compute lane, preceded by its launch on the host lane
  /// where that takes time, with the tensors of the model's tape. A checkpointed unit's forward
  /// runs once more before its backward, which then is the second operation.
  OpId forward(std::size_t unit, std::vector<After> after = {});
  OpId backward(std::size_t unit, Gradients gradients, std::vector<After> after = {});
  /// The two parts of a backward: gradients of activations, for which recomputation comes first,
  /// and gradients of parameters. What forward has kept stays until the second.
  OpId backward_input(std::size_t unit, std::vector<After> after = {});
  OpId backward_weight(std::size_t unit, Gradients gradients, std::vector<After> after = {});
  /// Of what every rank of the tensor-parallel group has a part: the whole, `size`.
  OpId gather(const std::string& what, Bytes size, std::vector<After> after);
  /// Exchanges that the next computation waits for.
  const std::vector<After>& unawaited() const { return unawaited_; }
  /// The last unit's operation on the compute lane.
  OpId last_computed() const { return last_computed_; }

  /// Where two actions begin that run beside each other, and what both come after.
  struct Fork {
    std::size_t first = 0, second = 0;  ///< operations
    OpId last_computed{};
    bool has_computed = false;
    std::optional<OpId> last_on_host{};
    std::vector<After> unawaited{}, unawaited_by_first{};
  };
  Fork fork() const;
  /// The first action ends and the second begins: it comes after nothing of the first.
  void second_of(Fork& fork);
  /// Both are written; their operations take turns once the program is finished.
  void join(const Fork& fork);
  /// The program, whose builder ends with it.
  Program finish();

  /// Of several micro-batches in flight, the one whose tensors the next operations are about.
  void use_slot(std::size_t slot) { slot_ = slot; }
  /// What one of the model's chunks is given, and what it hands over: activations, or gradients.
  Bytes received_size(std::size_t chunk, bool forward) const;
  Bytes sent_size(std::size_t chunk, bool forward) const;
  /// Takes memory for what is received, and gives back what was sent.
  void receive(std::size_t chunk, bool forward, OpId op);
  void sent(std::size_t chunk, bool forward, OpId op);
  OpId optimizer(Seconds duration, std::vector<After> after);
  /// The host's part of a step over all tensors by themselves (StepCosts::optimizer_launch), in
  /// front of optimizer(): it comes before `ready`.
  void launch_optimizer(std::vector<After>& ready);
  /// Behind a unit's backward with Gradients::used: the time of the steps that it has taken.
  void optimizer_of(std::size_t unit);
  /// What is left to reduce of gradients once replicas have reduced theirs: `reduced` comes before
  /// it, and is what it leaves.
  struct LeftToReduce {
    LaneId lane{};
    Bytes element;
    double shards = 1;  ///< each rank has that part of them
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  };
  void finish_gradients(const LeftToReduce& how, std::vector<After>& reduced);
  /// How passes over all gradients are made of the parts that ranks have.
  struct GradientPasses {
    LaneId lane{};  ///< of the all_reduce of what each finds
    Shards shards = 1;
    /// A gradient's bytes by those of its parameter.
    double width = 1;
    double slower = 1;  ///< where gradients are the host's
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  };
  /// What an optimizer has done to gradients before its step: `reduced` comes before it, and is
  /// what it leaves.
  /// Unscaled (Optimizer::grad_scaler), they are read and written in one kernel that also looks for
  /// infinities (_amp_foreach_non_finite_check_and_unscale_). Ranks that share gradients add up
  /// what they found (ShardedGradScaler, MixedPrecisionOptimizer). The host reads it before it goes
  /// on; a fused step reads it on the GPU (GradScaler._maybe_opt_step, _step_supports_amp_scaling).
  /// Clipped (Optimizer::clip_grad), they are read for their norm, then read and written: PyTorch
  /// scales them by a factor of at most 1 whatever the norm. A pipeline's stages do not wait for
  /// each other's norm.
  void prepare_gradients(const GradientPasses& how, std::vector<After>& reduced);
  /// What a step on a share of the parameters takes, here or on the node's CPUs: there at the rate
  /// of their memory, after gradients have come and before parameters go.
  Seconds optimizer_time(const Shards& shards, const Node& node) const;
  /// How often a GPU's time what is done of gradients takes where the optimizer is.
  double step_slowdown(const Node& node) const {
    return job_.optimizer.offload ? host_slowdown(node) : 1;
  }
  /// Bytes of a share of the parameters.
  Bytes own_bytes(const Shards& shards) const;
  /// A strategy's copy of gradients on the compute lane, which reads and writes `moved` in all;
  /// nothing where such copies cost nothing (StepCosts::copy_time).
  std::optional<OpId> copy(const std::string& what, Bytes moved, std::vector<After> after);
  /// The optimizer's step on all parameters of this rank, with its memory, as often as there are
  /// training steps.
  OpId local_update();
  /// What becomes of the gradients that a local_update() takes its step with.
  Gradients local_gradients() const {
    return step_ == 0 || job_.set_to_none ? Gradients::kept : Gradients::added;
  }
  /// Issued by the host after all that it has launched so far.
  OpId collective(LaneId lane, std::string what, Collective collective, std::vector<After> after);
  /// Holds the host back until `after` is over (an event.synchronize()); what it issues later waits
  /// with it. Without a host lane there is nothing to hold, and the caller's own edges must say it.
  void block_host(std::string what, std::vector<After> after);
  /// The thread that issues operations also computes: what it issues comes after what it computed.
  bool host_computes() const { return costs_.host_computes; }

  /// A tensor of the program; taken by nobody yet. Units own those that bear their index.
  TensorId tensor(MemoryKind kind, Bytes size, std::uint32_t owner, std::uint32_t stream = 0);
  /// Another owner of tensors than a unit.
  std::uint32_t owner(std::string name);
  /// Taken before the first iteration, and kept.
  void hold(TensorId id) { program.setup.push_back({id, TensorEvent::Action::take}); }
  void take(OpId op, TensorId id) { note(op, {id, TensorEvent::Action::take}); }
  void give(OpId op, TensorId id) { note(op, {id, TensorEvent::Action::give}); }
  void note(OpId op, const TensorEvent& event);

  /// Setup: the parameters one by one (or none: they are sharded), what every strategy holds of a
  /// model (buffers, a batch), and cuBLAS's workspace.
  void hold_parameters();
  /// Makes 8 bits of weights, once for a step's micro-batches; nothing in other precisions.
  void quantize_weights(OpId after);
  void hold_surroundings(Bytes buffer_element = Bytes(4));
  /// The unit's gradients as tensors, in the order in which its backward makes them.
  const std::vector<TensorId>& gradients(std::size_t unit) const {
    return tapes_[0][unit].gradients;
  }
  /// The one that reaches its AccumulateGrad last. A linear layer makes its weight's before its
  /// bias's, but that goes through the transposition's node first.
  TensorId last_ready(std::size_t unit) const { return tapes_[0][unit].last_ready; }
  /// zero_grad(): what `Gradients::kept` kept goes, unless `set_to_none` is false.
  void give_gradients(OpId op);
  /// The optimizer's state, taken in the first iteration, and the temporaries of each step. Beside
  /// master weights gradients are converted `at_once` elements at a time; 0: all of them.
  void update(OpId op, const std::vector<Trained>& tensors, std::int64_t at_once = 0);
  /// All parameters, a share of each.
  std::vector<Trained> trained(const Shards& shards = 1) const;

  /// Of a unit's tensor, a share of it.
  Trained trained(std::uint32_t unit, std::size_t tensor, std::int64_t ranks) const;

  LaneId compute_lane() const { return compute_; }
  const StepCosts& costs() const { return costs_; }
  const Model& model() const { return job_.model; }
  const Job& job() const { return job_; }
  Precision computes() const { return computes_; }

  Program program;

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
  };

  /// Of a unit, forward or backward.
  struct PassCost {
    Seconds time, launch;
    double spread = 0;
    const PassSegments* segments = nullptr;  ///< of a unit that exchanges
  };

  OpId kernel(Verb verb, const std::string& of, Phase phase, Seconds duration,
              std::vector<After> after);
  void add_up(const char* what, const GradientPasses& how, std::vector<After>& reduced);
  bool reads_batch(std::size_t unit) const;
  void load_batch(std::vector<After>& after);
  OpId unit_op(std::size_t unit, Verb pass, const PassCost& cost, std::vector<After> after);
  void launch(std::size_t unit, Verb pass, const PassCost& cost, std::vector<After>& after);
  OpId compute(std::size_t unit, Verb pass, Seconds time, double spread, std::vector<After> after);
  OpId segments(std::size_t unit, Verb pass, const PassCost& cost, std::vector<After> after);
  OpId exchange(const Exchange& what, std::size_t unit, Verb pass);
  LaneId exchange_lane(ExchangeAxis axis);
  void recompute(std::size_t unit, std::vector<After>& after);
  // Activations in host memory (program_offload.cpp).
  bool is_offloaded(std::size_t unit) const;
  std::vector<TensorId> made_before(std::size_t unit);
  void move_out(std::size_t unit);
  void free_moved(OpId op);
  void move_in(std::size_t unit, std::vector<After>& after);
  void end_moved(std::size_t unit, OpId op);
  OpId host_copy(const std::string& what, std::size_t unit, std::vector<After> after);
  void read_tape();
  void hold_narrow_weights();
  void read_tape_once(const MemoryTape& tape);
  std::vector<TensorId> tensors_of(const MemoryTape& tape);
  void add_incoming(std::size_t unit);
  void add_given_tape(std::size_t unit);
  void add_tape(std::size_t unit, const MemoryTape& tape, const std::vector<TensorId>& ids);
  void add_chunk(std::size_t chunk, const MemoryTape& tape, const std::vector<TensorId>& ids);
  std::size_t last_of_chunk(std::size_t unit) const;
  void checkpoint(std::size_t unit);
  /// `whole`: it is no second part, in front of which the chunk's gradient was sent.
  void note_backward(OpId op, std::size_t unit, Gradients gradients, bool whole = true);
  /// Muon's temporaries of one matrix.
  void orthogonalize(OpId op, const Trained& one, Bytes element);
  /// What the backward of the unit's chunk sends.
  std::optional<TensorId> sent_gradient(std::size_t unit) const;
  bool begins_chunk(std::size_t unit) const;
  UnitEvents& events(std::size_t unit) { return tapes_[slot_][unit]; }

  const StepCosts& costs_;
  const Job& job_;
  Precision computes_;
  bool parameters_are_leaves_;
  std::set<TensorId> cached_;  ///< autocast's copies in its cache
  std::vector<std::pair<TensorId, std::size_t>> cached_until_end_;  ///< and who made it
  LaneId compute_;
  std::optional<LaneId> host_, loader_;
  std::optional<OpId> last_on_host_;
  OpId last_computed_{};
  bool has_computed_ = false;
  std::vector<After> unawaited_;
  std::map<ExchangeAxis, LaneId> exchange_lanes_;
  std::vector<SideBySide> beside_;
  std::vector<std::vector<UnitEvents>> tapes_;     ///< by slot and unit
  std::vector<std::vector<ChunkTensors>> chunks_;  ///< by slot and chunk
  std::vector<TensorId> first_ids_;                ///< of the first slot, by the tape
  std::size_t slot_ = 0;
  bool notes_memory_ = true, notes_step_ = true;
  std::uint32_t step_ = 0;
  std::vector<TensorEvent> update_;  ///< what a local_update() does in every iteration
  /// Units whose inputs are on their way to the host, and the copies.
  std::vector<std::pair<std::size_t, OpId>> leaving_;
  std::optional<LaneId> copies_;
  std::optional<std::size_t> returned_;  ///< the unit whose input goes with the next one's backward
  std::optional<OpId> last_returned_, before_last_;  ///< backwards of such units
};

/// Bytes of a unit's trained parameters.
Bytes parameter_bytes(const Unit& unit, Precision precision);
Bytes parameter_bytes(const Model& model, Precision precision);
Bytes expert_bytes(const Model& model, Precision precision);  ///< those of ParameterShare::expert

/// A schedule with one program per group of nodes that has GPUs and one rank per GPU, its slowdown
/// from the node's speed; `make` writes each group's program.
template <class Make>
Schedule schedule_by_node_group(const Job& job, Make make) {
  Schedule schedule;
  std::vector<std::optional<ProgramId>> programs(job.cluster.groups.size());
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    if (job.cluster.groups[g].node.gpus == 0) continue;
    programs[g] = ProgramId(schedule.programs.size());
    schedule.programs.push_back(make(job.cluster.groups[g], job.costs[g]));
  }
  std::size_t node = 0;
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    const NodeGroup& group = job.cluster.groups[g];
    for (int i = 0; i < group.nodes; ++i, ++node)
      for (int gpu = 0; gpu < group.node.gpus; ++gpu)
        schedule.ranks.push_back({.program = *programs[g],
                                  .place = {NodeId(node), gpu},
                                  .slowdown = 1 / group.node.speed,
                                  .groups = {}});
  }
  return schedule;
}

/// A group of given ranks, its node count taken from their places.
Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule);
/// Puts all ranks into one group, as slot 0 of every rank.
void add_world(Schedule& schedule);

/// InputError unless the cluster has a GPU.
void require_gpus(const Job& job);

}  // namespace rehearse::inline strategy
