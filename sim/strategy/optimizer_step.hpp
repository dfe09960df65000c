#pragma once

#include <vector>

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

/// Ranks that share what there is of parameters; of experts' others may (Megatron-LM's expert data
/// parallelism).
struct Shards {
  std::int64_t all = 1, experts = 1;

  Shards(std::int64_t ranks) : all(ranks), experts(ranks) {}  // NOLINT: most have no experts
  Shards(std::int64_t ranks, std::int64_t of_experts) : all(ranks), experts(of_experts) {}
};

/// A tensor that the optimizer updates.
struct Trained {
  std::int64_t elements = 0;
  std::uint32_t owner = 0;
  StoredAs storage = StoredAs::model;
  std::optional<MatrixShape> matrix{};  ///< of a hidden layer, whole
};
/// All parameters, a share of each.
std::vector<Trained> trained(const Job& job, const Shards& shards = 1);
/// Of a unit's tensor, a share of it.
Trained trained(const Job& job, std::uint32_t unit, std::size_t tensor, std::int64_t ranks);

/// How often the time of memory-bound kernels a node's CPUs take where each of its GPUs has them
/// compute as much.
double host_slowdown(const Node& node);
/// How often a GPU's time what is done of gradients takes where the optimizer is.
inline double step_slowdown(const Job& job, const Node& node) {
  return job.optimizer.offloads() ? host_slowdown(node) : 1;
}
/// Bytes of a share of the parameters.
Bytes own_bytes(const Job& job, const Shards& shards);
/// Time that drives of a node take for what a step swaps (Offload::nvme), each way by itself.
Seconds swap_time(const Job& job, const Shards& shards, const Node& node);
/// What a step on a share of the parameters takes, here or on the node's CPUs: there at the rate of
/// their memory, after gradients have come and before parameters go, or all at once
/// (OffloadOverlap::copies).
Seconds optimizer_time(const ProgramBuilder& builder, const Shards& shards, const Node& node);

/// What is left to reduce of gradients once replicas have reduced theirs.
struct LeftToReduce {
  LaneId lane{};
  Bytes element;
  double shards = 1;  ///< each rank has that part of them
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};
/// `reduced` comes before it, and is what it leaves.
void finish_gradients(ProgramBuilder& builder, const LeftToReduce& how,
                      std::vector<After>& reduced);
/// How passes over all gradients are made of the parts that ranks have.
struct GradientPasses {
  LaneId lane{};  ///< of the all_reduce of what each finds
  Shards shards = 1;
  /// A gradient's bytes by those of its parameter.
  double width = 1;
  double slower = 1;  ///< where gradients are the host's
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};
/// One number of each rank that has a part of the gradients, or of the tensors that they are of.
void add_up(ProgramBuilder& builder, const char* what, const GradientPasses& how,
            std::vector<After>& reduced);
/// What an optimizer has done to gradients before its step: `reduced` comes before it, and is
/// what it leaves.
/// Unscaled (Optimizer::grad_scaler), they are read and written in one kernel that also looks for
/// infinities (_amp_foreach_non_finite_check_and_unscale_). Ranks that share gradients add up
/// what they found (ShardedGradScaler, MixedPrecisionOptimizer). The host reads it before it goes
/// on; a fused step reads it on the GPU (GradScaler._maybe_opt_step, _step_supports_amp_scaling).
/// Clipped (Optimizer::clip_grad), they are read for their norm, then read and written: PyTorch
/// scales them by a factor of at most 1 whatever the norm. A pipeline's stages do not wait for
/// each other's norm.
void prepare_gradients(ProgramBuilder& builder, const GradientPasses& how,
                       std::vector<After>& reduced);
/// The host's part of a step over all tensors by themselves (StepCosts::optimizer_launch), in front
/// of optimizer(): it comes before `ready`.
void launch_optimizer(ProgramBuilder& builder, std::vector<After>& ready);
OpId optimizer(ProgramBuilder& builder, Seconds duration, std::vector<After> after);
/// Behind a unit's backward with Gradients::used: the time of the steps that it has taken.
void optimizer_of(ProgramBuilder& builder, std::size_t unit);
/// Gradients have this beside master weights.
struct WideGradients {
  std::int64_t at_once = 0;  ///< elements that are converted together; 0: all
  bool are_there = false;    ///< nothing is converted for the step
};
/// The optimizer's state, taken in the first iteration, and the temporaries of each step.
void update(ProgramBuilder& builder, OpId op, const std::vector<Trained>& tensors,
            const WideGradients& wide = {});
/// Makes 8 bits of weights, once for a step's micro-batches; nothing in other precisions.
void quantize_weights(ProgramBuilder& builder, OpId after);

/// An optimizer of all parameters on one rank, once in each training step.
class LocalOptimizer {
 public:
  explicit LocalOptimizer(ProgramBuilder& builder) : builder_(builder) {}

  OpId step();
  /// What becomes of the gradients that it takes its step with.
  Gradients gradients() const {
    const bool kept = builder_.training_step() == 0 || builder_.job().set_to_none;
    return kept ? Gradients::kept : Gradients::added;
  }

 private:
  ProgramBuilder& builder_;
  std::vector<TensorEvent> later_;  ///< what every step does
};

}  // namespace rehearse::inline strategy
