#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/cluster.hpp"
#include "config/document.hpp"
#include "cost/cost.hpp"
#include "framework/framework.hpp"
#include "model/memory_tape.hpp"
#include "strategy/layout/layout_options.hpp"
#include "strategy/server/server_options.hpp"
#include "strategy/sync_options.hpp"

namespace rehearse::inline strategy {

/// A training is a product of three axes. Outside this module nobody asks for an alternative of
/// `sync` (tests/structure/check).
struct Strategy {
  using Kind =
      std::variant<TorchDdp, Horovod, MegatronDdp, DeepspeedAllreduce, DeepspeedBuckets, TorchFsdp1,
                   TorchFsdp2, MegatronFsdp, DeepspeedZero3, ParameterServer, Alone>;

  Kind sync{};                          ///< how replicas stay equal, by whose code
  std::optional<Layout> layout{};       ///< how ranks share a replica; nothing: it is one GPU
  std::optional<LocalSgd> local_sgd{};  ///< what is averaged between groups that `sync` keeps equal

  Strategy() = default;
  template <std::convertible_to<Kind> Options>
  Strategy(Options kind, std::optional<Layout> ranks = {}, std::optional<LocalSgd> steps = {})
      : sync(std::move(kind)), layout(std::move(ranks)), local_sgd(std::move(steps)) {}
  /// Of replicas that Megatron-LM's DDP keeps equal.
  Strategy(Layout ranks) : sync(MegatronDdp{}), layout(std::move(ranks)) {}
  /// Of GPUs on their own between two averages.
  Strategy(LocalSgd steps) : sync(Alone{}), local_sgd(std::move(steps)) {}
};
std::string strategy_name(const Strategy& strategy);  ///< "ddp", "fsdp full_shard", "ps ssp 2", ...

/// The options of what keeps replicas equal; null where another does.
template <class Sync>
const Sync* sync_in(const Strategy& strategy) {
  return std::get_if<Sync>(&strategy.sync);
}
const ParameterServer* server_in(const Strategy& strategy);
ParameterServer* server_in(Strategy& strategy);
/// Each rank has all parameters of its part of the model, and updates all of them.
bool is_replicated(const Strategy& strategy);
/// Each rank has all parameters, and updates its share of them: ZeRO-1, ZeRO-2.
bool shards_optimizer(const Strategy& strategy);
/// Each rank has a share of the parameters: FSDP, ZeRO-3 (sharded_in() says how).
bool shards_parameters(const Strategy& strategy);
/// All gradients of a rank's part are there at some time.
bool keeps_gradients(const Strategy& strategy);
/// The key that lets reductions wait for the end of backward, with its value; empty: they run
/// beside it, or nothing is reduced.
std::string late_reduction(const Strategy& strategy);
/// Megatron-LM's own FSDP shards parameters.
bool is_megatron_fsdp(const Strategy& strategy);
/// DeepSpeed's stage 3, whose parameters are the GPUs'.
bool is_stage3(const Strategy& strategy);
/// The host's optimizer may work beside backward (OffloadOverlap::backward): of FSDP2 and stage 3
/// without other ranks in a replica, as those do who have it.
bool steps_beside_backward(const Strategy& strategy);
/// Each bucket takes its step once it is reduced.
bool steps_by_bucket(const Strategy& strategy);
/// Updated weights are kept and gathered in 8 bits.
bool gathers_fp8(const Strategy& strategy);
/// They are kept in 4 bits.
bool gathers_fp4(const Strategy& strategy);
/// Bytes of a gradient's element as replicas of a layout add it up and exchange it; nothing where
/// parameters are sharded.
std::optional<Bytes> main_gradient_element(const Strategy& strategy, Precision precision);
/// Each GPU trains on its own between two averages.
bool is_alone(const Strategy& strategy);
/// The layout is of all ranks: no server, and no average of local SGD, stands between them.
bool is_one_layout(const Strategy& strategy);

/// The degrees of the ranks that share a replica, whose data parallelism is the cluster's to say;
/// all 1 where a replica is one GPU.
Mesh mesh_of(const Strategy& strategy);

/// Parts of the cluster that take steps of their own between two averages of local SGD, or one.
/// InputError (without a place) where GPUs do not divide among them.
std::size_t replica_count(const Strategy& strategy, const Cluster& cluster);
/// What the first of these has of the cluster; its ranks are consecutive. Without local SGD: all.
Cluster cluster_of_replica(const Strategy& strategy, const Cluster& cluster);
/// Replicas of the model there, each of one mesh of ranks. Of a layout that the cluster does not
/// suit: one in each part.
std::size_t replicas_on(const Strategy& strategy, const Cluster& cluster);
/// Of which groups of the cluster that one's groups are.
std::vector<std::size_t> groups_of_replica(const Strategy& strategy, const Cluster& cluster);

/// Steps of its own that a worker takes between two exchanges; 1: it exchanges every gradient.
int local_steps(const Strategy& strategy);
/// Micro-batches whose gradients add up before they are exchanged; nothing where the strategy has
/// no such option.
std::optional<int> gradient_accumulation(const Strategy& strategy);
/// Where the strategy keeps them; null where it has none.
int* micro_batches_of(Strategy& strategy);
/// Batches of one GPU in an iteration.
std::int64_t batches_per_iteration(const Strategy& strategy);

/// What the units of a model of that precision compute in.
Precision computes_in(const Strategy& strategy, Precision precision);

/// Reads `{ddp: {...}}`, `{fsdp: {...}}`, `{zero: {stage: 1|2|3}}`, `{ps: {...}}` or `{local_sgd:
/// {...}}`, beside which ddp, fsdp, fsdp2, zero or a layout may stand; what they leave out is as
/// the framework does it.
Strategy read_strategy(const Value& value, Framework& framework);
const std::vector<std::string>& strategy_names();
std::string describe_strategy(const std::string& name);

struct StagePlan;

/// What a strategy builds a schedule from. Costs stand by node group (unlike GPUs, unlike costs).
struct Job {
  const Model& model;
  const Cluster& cluster;
  Precision precision;
  std::int64_t batch_per_gpu;
  Optimizer optimizer;
  std::vector<StepCosts> costs;  ///< by Cluster::groups; empty costs for a group without GPUs
  /// By Model::units: keeps only its input, and is computed once more before its backward
  /// (torch.utils.checkpoint); empty: none does.
  std::vector<bool> checkpointed{};
  /// A checkpoint runs again no further than backward needs (rerun_operators()).
  bool stops_early = false;
  /// The inputs of checkpointed units wait for backward in host memory (torchtune's
  /// OffloadActivations).
  bool offloads_activations = false;
  /// optimizer.zero_grad(set_to_none=...): gradients are given back after each step.
  bool set_to_none = true;
  /// False: forward passes alone, under torch.no_grad, so that nothing is kept for a backward.
  bool trains = true;
  /// Whose kernels and allocator.
  TapeDevice device = TapeDevice::cuda;
  /// Of a rank of a layout, whose part of the model `model` is; null: it is all of it.
  const StagePlan* stage = nullptr;

  /// Ranks that reduce gradients together: those of the cluster, or of a layout's data parallelism.
  std::size_t replicas() const;
  bool is_checkpointed(std::size_t unit) const {
    return !checkpointed.empty() && checkpointed[unit];
  }
};

/// InputError (without a place) where the cluster cannot run the strategy.
Schedule build_schedule(const Strategy& strategy, const Job& job);

/// The layout's mesh with what the cluster's GPUs leave to data parallelism; nothing where its
/// other degrees do not divide them.
std::optional<Mesh> mesh_on(const Layout& layout, std::size_t gpus);
/// How the work of a layer is split, on a cluster that mesh_on() finds suited.
ModelParallel parallel_of(const Layout& layout, const Cluster& cluster);
/// Who computes what in which order, of all ranks of a pipeline.
PipelineOrder order_of(const Layout& layout);
/// Which actions of a rank's order run beside the next one (side_by_side()); empty: each runs
/// alone.
std::vector<bool> beside_next(const Strategy& strategy, const std::vector<PipelineAction>& order);

}  // namespace rehearse::inline strategy
