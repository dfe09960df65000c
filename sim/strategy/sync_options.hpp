#pragma once

#include <cstdint>
#include <optional>

#include "base/quantity.hpp"
#include "model/model.hpp"
#include "schedule/schedule.hpp"

// How replicas are kept equal, by whose code does it: one type for each, with its own options.
namespace rehearse::inline strategy {

/// Nothing does: each is a GPU on its own.
struct Alone {};

/// torch.nn.parallel.DistributedDataParallel. Names and defaults are PyTorch's.
struct TorchDdp {
  double bucket_cap_mb = 25;             ///< MiB
  double first_bucket_mb = 1;            ///< MiB; c10d's kDefaultFirstBucketBytes
  bool gradient_as_bucket_view = false;  ///< gradients alias the buckets: one copy less in memory
  bool static_graph = false;             ///< recorded in the report; the steady state is the same
  enum class Compression { none, fp16, bf16 };
  Compression compression = Compression::none;  ///< the fp16/bf16 compression hooks
  /// Time of each collective on its stream beside its own: events, the launch, peers that come
  /// later.
  Seconds per_collective{0};
  int gradient_accumulation = 1;  ///< micro-batches per step, all but the last under no_sync()
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// torch.distributed.optim.ZeroRedundancyOptimizer on top: each rank updates its share of the
  /// parameters, and the shares are broadcast (as one all_gather).
  bool zero_redundancy_optimizer = false;
};

/// Replicas whose gradients another library than PyTorch reduces: Horovod, ByteScheduler over it,
/// TensorFlow's NcclAllReduce, MXNet's kvstore_nccl. Names are the keys'; defaults are Horovod's.
struct Horovod {
  double bucket_cap_mb = 128;    ///< MiB; HOROVOD_FUSION_THRESHOLD
  double first_bucket_mb = 128;  ///< MiB
  /// `activations`: as wide as those are (tf_cnn_benchmarks' compact_gradient_transfer).
  enum class Compression { none, fp16, bf16, activations };
  Compression compression = Compression::none;
  bool overlap_grad_reduce = true;  ///< buckets go as they fill; else all behind backward
  /// A background thread looks so often which tensors are ready, and reduces these in one; 0:
  /// buckets go as they fill.
  Seconds cycle_time{0};
  Seconds per_collective{0};  ///< time of each collective on its stream beside its own
  /// Larger buckets are reduced in equal slices of at most so many bytes; 0: whole (ByteScheduler).
  Bytes partition{0};
  /// No barrier stands between steps: each bucket's parameters are updated once it is reduced, and
  /// the next forward of a unit waits for its own alone. Of the buckets that are ready the one
  /// nearest to the input is reduced next (ByteScheduler: Peng et al., SOSP 2019).
  bool by_priority = false;
  int gradient_accumulation = 1;  ///< micro-batches per step
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

/// Megatron-LM's DistributedDataParallel, of a layout. Names and defaults are its
/// DistributedDataParallelConfig's.
struct MegatronDdp {
  /// MiB; nothing: 40 million gradients, or one for each replica in a million where that is more.
  std::optional<double> bucket_cap_mb{};
  bool overlap_grad_reduce = false;   ///< buckets go as they fill; else behind the last backward
  bool overlap_param_gather = false;  ///< a unit waits for its own parameters; else for all
  /// Gradients add up and travel in fp32. Nothing: where parameters are bf16, as Megatron-LM asks.
  std::optional<bool> grad_reduce_in_fp32{};
  /// Each bucket's gradients are read for their norm before they are reduced.
  bool check_for_nan_in_grad = true;
  /// Weights that multiply in 8 bits are kept in nothing wider, and FP8 is what is gathered
  /// (--fp8-param-gather; MXFP8 is gathered in 16 bits all the same).
  bool fp8_param_gather = false;
  /// The same of weights that multiply in 4 bits (--fp4-param-gather), gathered in 16 as before
  /// core 0.19.
  bool fp4_param_gather = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// --use-distributed-optimizer: each rank updates its share of the parameters.
  bool use_distributed_optimizer = false;
};

/// DeepSpeed without ZeRO: all gradients are reduced behind the last backward
/// (DeepSpeedEngine.allreduce_gradients).
struct DeepspeedAllreduce {
  int gradient_accumulation = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

/// DeepSpeed's stages 1 and 2 (deepspeed/runtime/zero/stage_1_and_2.py). Names and defaults are
/// its; sizes are elements.
struct DeepspeedBuckets {
  /// Stage 2: a rank keeps gradients of its own part alone, and reduces them in each backward.
  bool partitions_gradients = false;
  std::int64_t reduce_bucket_size = 500'000'000;
  /// Buckets are reduced on a stream of their own, two in turn; else computation waits for them.
  bool overlap_comm = false;
  /// Gradients are copied into a bucket that is there; else each bucket is made of them.
  bool contiguous_gradients = true;
  /// communication_data_type: fp32: what is reduced is a copy of that type; else the gradients'.
  bool communicates_fp32 = false;
  int gradient_accumulation = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

/// torch.distributed.fsdp.FullyShardedDataParallel, FSDP1; its types of MixedPrecision are each
/// fp32, bf16_pure or fp16_pure.
struct TorchFsdp1 {
  enum class Sharding { full_shard, shard_grad_op, hybrid_shard };
  enum class Prefetch { none, backward_pre, backward_post };
  enum class Wrap { unit, blocks, model, size };
  Sharding sharding = Sharding::full_shard;
  Prefetch backward_prefetch = Prefetch::backward_pre;
  bool forward_prefetch = false;  ///< the host issues the next unit's all_gather before a unit's
                                  ///< forward; felt where launches take time
  bool limit_all_gathers = true;  ///< an all_gather waits for the second last unit to be freed
  /// One FlatParameter holds each unit of the model; each block (transformer_auto_wrap_policy),
  /// beside which the root holds all else; the whole model (PyTorch without a policy); or runs of
  /// units of at least min_num_params (size_based_auto_wrap_policy).
  Wrap wrap = Wrap::unit;
  std::int64_t min_num_params = 100'000'000;
  int shard_group = 0;  ///< ranks of a hybrid sharding group; 0: the ranks of one node
  /// What units gather and compute in, what gradients are reduced in, and buffers. The shards,
  /// their gradients and the optimizer stay as the model is. Empty: the parameters' own,
  /// param_dtype's and fp32.
  std::optional<Precision> param_dtype{}, reduce_dtype{}, buffer_dtype{};
  bool cpu_offload = false;  ///< sharded parameters and optimizer in host memory
  int gradient_accumulation = 1;
  /// All micro-batches but the last run under no_sync(): they reduce nothing and keep whole
  /// gradients.
  bool no_sync = false;
  /// What is trained and what is frozen are one flat tensor, whose gradients hold both (litgpt);
  /// false: PEFT's wrap policy, of what is trained.
  bool flat_gradients = true;
  /// Checkpoints stand around the units, and run by use_reentrant=True (transformers before 5).
  /// The input that such a unit detaches, and its gradient, go with hooks on frozen tensors: at
  /// backward's end (torch/distributed/fsdp/_runtime_utils.py:
  /// _register_post_backward_reshard_only_hook).
  bool reentrant_checkpoints = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// Host time of FSDP's own hooks for one FlatParameter in one pass, forward or backward: waits,
  /// views, allocations, launches of its kernels. Measured; nothing: so many of the host's
  /// operators as were measured (sync/fsdp_overhead.cpp).
  std::optional<Seconds> host_overhead{};
};

/// torch.distributed.fsdp.fully_shard, FSDP2: each parameter keeps a tensor of its own. Its streams
/// wait for what was copied out, which limits it to two gathered units.
struct TorchFsdp2 {
  enum class Wrap { unit, blocks };
  bool reshard_after_forward = true;
  /// reshard_after_forward: N. After forward a rank keeps its part of what so many consecutive
  /// ranks share, and gathers from these for backward; 0: from all that shard.
  int post_forward_group = 0;
  int shard_group = 0;  ///< ranks that share one copy, replicated over all others (HSDP); 0: all
  Wrap wrap = Wrap::unit;
  std::optional<Precision> param_dtype{}, reduce_dtype{};  ///< MixedPrecisionPolicy's
  bool cpu_offload = false;
  int gradient_accumulation = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  std::optional<Seconds> host_overhead{};  ///< as TorchFsdp1's, for one group of parameters
};

/// Megatron-LM's own FSDP (megatron/core/distributed/fsdp), of a layout. Each transformer layer is
/// one buffer, which ranks cut as it lies: nothing is copied in or out. All else stays gathered
/// while a micro-batch computes. Its `optim` is MegatronDdp's use_distributed_optimizer.
/// The next layer is gathered ahead, as NVIDIA's recipes ask (overlap_param_gather).
struct MegatronFsdp {
  /// `optim_grads`: parameters stay whole, and are gathered once in a step.
  enum class Sharding { optim_grads, optim_grads_params };
  Sharding sharding = Sharding::optim_grads_params;
  /// Gradients add up and travel in fp32. Nothing: where parameters are bf16, as Megatron-LM asks.
  std::optional<bool> grad_reduce_in_fp32{};
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  std::optional<Seconds> host_overhead{};  ///< as TorchFsdp1's, for one layer
};

/// DeepSpeed's ZeRO-3 (deepspeed/runtime/zero: stage3.py, partitioned_param_coordinator.py), whose
/// hooks stand at each module and which gathers parameter by parameter. Names and defaults are its;
/// sizes are elements.
struct DeepspeedZero3 {
  std::int64_t prefetch_bucket_size = 50'000'000;      ///< gathered ahead, in the order of use
  std::int64_t max_live_parameters = 1'000'000'000;    ///< beyond that many nothing is prefetched
  std::int64_t max_reuse_distance = 1'000'000'000;     ///< used again so soon: not given back
  std::int64_t param_persistence_threshold = 100'000;  ///< smaller ones stay whole
  std::int64_t reduce_bucket_size = 500'000'000;
  /// Gathers and reductions run on streams of their own; else computation waits for them.
  bool overlap_comm = true;
  /// Elements of a rank that are stepped together, one such group after the other.
  std::int64_t sub_group_size = 1'000'000'000;
  /// Host time of the hooks of one module with parameters in one pass.
  std::optional<Seconds> module_hook{};
  std::optional<Precision> param_dtype{}, reduce_dtype{}, buffer_dtype{};  ///< as TorchFsdp1's
  bool cpu_offload = false;
  int gradient_accumulation = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};

}  // namespace rehearse::inline strategy
