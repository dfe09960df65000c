#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/cluster.hpp"
#include "config/document.hpp"
#include "convergence/mitigation.hpp"
#include "cost/cost.hpp"
#include "framework/framework.hpp"
#include "mesh/mesh.hpp"
#include "mesh/pipeline_order.hpp"
#include "model/memory_tape.hpp"
#include "model/model.hpp"
#include "model/parallel.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline model {
struct TokenHistogram;
}

namespace rehearse::inline strategy {

/// torch.nn.parallel.DistributedDataParallel; in a layout Megatron-LM's, which has other options.
struct Ddp {
  /// MiB, as PyTorch's option of that name. 0, of a layout: Megatron-LM's.
  double bucket_cap_mb = 25;
  double first_bucket_mb = 1;            ///< MiB; c10d's kDefaultFirstBucketBytes
  bool gradient_as_bucket_view = false;  ///< gradients alias the buckets: one copy less in memory
  bool static_graph = false;             ///< recorded in the report; the steady state is the same
  /// `activations`: as wide as those are (tf_cnn_benchmarks' compact_gradient_transfer).
  enum class Compression { none, fp16, bf16, activations };
  Compression compression = Compression::none;  ///< the fp16/bf16 compression hooks
  bool behind_backward = false;                 ///< all are reduced when backward is over
  /// Horovod's background thread looks so often which tensors are ready, and reduces these in one;
  /// 0: buckets go as they fill.
  Seconds cycle_time{0};
  /// Time of each collective on its stream beside its own: events, the launch, peers that come
  /// later.
  Seconds per_collective{0};
  /// Larger buckets are reduced in equal slices of at most so many bytes; 0: whole.
  Bytes partition{0};
  /// No barrier stands between steps: each bucket's parameters are updated once it is reduced, and
  /// the next forward of a unit waits for its own alone. Of the buckets that are ready the one
  /// nearest to the input is reduced next (ByteScheduler: Peng et al., SOSP 2019).
  bool by_priority = false;
  int gradient_accumulation = 1;  ///< micro-batches per step, all but the last under no_sync()
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  // Of a layout (Megatron-LM's DistributedDataParallelConfig).
  bool overlap_grad_reduce = false;   ///< buckets go as they fill; else behind the last backward
  bool overlap_param_gather = false;  ///< a unit waits for its own parameters; else for all
  /// Gradients add up and travel in fp32. Nothing: where parameters are bf16, as Megatron-LM asks.
  std::optional<bool> grad_reduce_in_fp32{};
  /// Each bucket's gradients are read for their norm before they are reduced.
  bool check_for_nan_in_grad = true;
  /// Weights that multiply in 8 bits are kept in nothing wider, and FP8 is what is gathered
  /// (Megatron-LM's --fp8-param-gather; MXFP8 is gathered in 16 bits all the same).
  bool fp8_param_gather = false;
  /// PyTorch's Reducer in a layout, with the options above these.
  bool reducer = false;
};
/// Bytes of a gradient's element as a layout's replicas add it up and exchange it.
Bytes main_gradient_element(const Ddp& ddp, Precision precision);

/// torch.distributed.fsdp.FullyShardedDataParallel; also ZeRO-2 (shard_grad_op) and ZeRO-3
/// (full_shard).
struct Fsdp {
  enum class Sharding { full_shard, shard_grad_op, hybrid_shard };
  enum class Prefetch { none, backward_pre, backward_post };
  enum class Wrap { unit, blocks, model, size };
  Sharding sharding = Sharding::full_shard;
  Prefetch backward_prefetch = Prefetch::backward_pre;
  bool forward_prefetch = false;  ///< the host issues the next unit's all_gather before a unit's
                                  ///< forward; felt where launches take time
  bool limit_all_gathers = true;  ///< an all_gather waits for the second last unit to be freed
  /// One FlatParameter holds each unit of the model; each block
  /// (transformer_auto_wrap_policy), beside which the root holds all else; the whole model (PyTorch
  /// without a policy); or runs of units of at least min_num_params (size_based_auto_wrap_policy).
  Wrap wrap = Wrap::unit;
  std::int64_t min_num_params = 100'000'000;
  int shard_group = 0;  ///< ranks of a hybrid sharding group; 0: the ranks of one node
  /// MixedPrecision's types (FSDP2: MixedPrecisionPolicy's), each fp32, bf16_pure or fp16_pure:
  /// what units gather and compute in, what gradients are reduced in, and buffers. The shards,
  /// their gradients and the optimizer stay as the model is. Empty: the parameters' own,
  /// param_dtype's and fp32.
  std::optional<Precision> param_dtype{}, reduce_dtype{}, buffer_dtype{};
  bool cpu_offload = false;  ///< sharded parameters and optimizer in host memory
  int gradient_accumulation = 1;
  /// All micro-batches but the last run under no_sync(): they reduce nothing and keep whole
  /// gradients.
  bool no_sync = false;
  /// What is trained and what is frozen are one flat tensor, whose gradients hold both (litgpt);
  /// false: PEFT's wrap policy and DeepSpeed's gradients, of what is trained.
  bool flat_gradients = true;
  /// Checkpoints stand around the units, and run by use_reentrant=True (transformers before 5).
  /// The input that such a unit detaches, and its gradient, go with hooks on frozen tensors: at
  /// backward's end (torch/distributed/fsdp/_runtime_utils.py:
  /// _register_post_backward_reshard_only_hook).
  bool reentrant_checkpoints = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// torch.distributed.fsdp.fully_shard, FSDP2: each parameter keeps a tensor of its own. What is
  /// gathered is copied out into them before it is used, and their gradients are copied into what
  /// is reduced (_fsdp_collectives.py: foreach_all_gather_copy_out, foreach_reduce).
  bool per_parameter = false;
  /// FSDP2's reshard_after_forward: N. After forward a rank keeps its part of what so many
  /// consecutive ranks share, and gathers from these for backward; 0: from all that shard.
  int post_forward_group = 0;
  /// DeepSpeed's ZeRO-3 (deepspeed/runtime/zero: stage3.py, partitioned_param_coordinator.py),
  /// whose hooks stand at each module and which gathers parameter by parameter. Options have its
  /// names and defaults; sizes are elements.
  struct Stage3 {
    std::int64_t prefetch_bucket_size = 50'000'000;      ///< gathered ahead, in the order of use
    std::int64_t max_live_parameters = 1'000'000'000;    ///< beyond that many nothing is prefetched
    std::int64_t max_reuse_distance = 1'000'000'000;     ///< used again so soon: not given back
    std::int64_t param_persistence_threshold = 100'000;  ///< smaller ones stay whole
    std::int64_t reduce_bucket_size = 500'000'000;
    /// Gathers and reductions run on streams of their own; else computation waits for them.
    bool overlap_comm = true;
    /// Host time of the hooks of one module in one pass. Measured; 0: no slower than what it
    /// launches.
    Seconds module_hook{0};
  };
  std::optional<Stage3> stage3{};
  /// Host time of FSDP's own hooks for one FlatParameter in one pass, forward or backward: waits,
  /// views, allocations, launches of its kernels. Measured; nothing: so many of the host's
  /// operators as were measured of either (sync/fsdp_overhead.cpp).
  std::optional<Seconds> host_overhead{};
};

/// ZeRO with whole parameters. Stage 1 as torch.distributed.optim.ZeroRedundancyOptimizer on top of
/// DDP: gradients all-reduced in buckets, each rank updates its share of the parameters, and the
/// shares are broadcast (as one all_gather); or Megatron-LM's distributed optimizer.
struct Zero1 {
  Ddp ddp;
  /// DeepSpeed's stages 1 and 2 (deepspeed/runtime/zero/stage_1_and_2.py), which has its own
  /// buckets; of `ddp` it has gradient_accumulation and algorithm. Options have its names and
  /// defaults.
  struct Deepspeed {
    /// Stage 2: a rank keeps gradients of its own part alone, and reduces them in each backward.
    bool partitions_gradients = false;
    std::int64_t reduce_bucket_size = 500'000'000;  ///< elements
    /// Buckets are reduced on a stream of their own, two in turn; else computation waits for them.
    bool overlap_comm = false;
    /// Gradients are copied into a bucket that is there; else each bucket is made of them.
    bool contiguous_gradients = true;
    /// communication_data_type: fp32: what is reduced is a copy of that type; else the gradients'.
    bool communicates_fp32 = false;
  };
  std::optional<Deepspeed> deepspeed{};
};

/// How pseudo-gradients travel; none: as parameters are stored.
enum class OuterCompression { none, bf16, int8, int4 };

/// A replica of the model over a mesh of ranks, in micro-batches. Names and defaults are
/// Megatron-LM's and torchtitan's.
struct Layout {
  Mesh mesh{};  ///< Mesh::data: as the cluster allows (mesh_on)
  /// ModelParallel::tensor_overlap: TransformerEngine's tp_comm_overlap, or PyTorch's
  /// asynchronous tensor parallelism.
  bool tp_comm_overlap = false;
  bool tensor_async = true;        ///< ModelParallel::tensor_async
  bool sequence_parallel = false;  ///< norms and sums on each tensor rank's own tokens
  bool gather_logits = false;      ///< each tensor rank has all logits, and the whole loss
  ContextMethod context_method = ContextMethod::ring;
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;  ///< of Mesh::expert ranks
  bool expert_overlap = false;  ///< shared experts compute beside dispatch and combine
  /// One micro-batch computes beside another's dispatch and combine; nothing: as the schedule does.
  std::optional<bool> expert_comm_overlap{};
  int node_limit = 0;               ///< nodes that a token goes to at most; 0: any
  bool fake_balanced_gate = false;  ///< ModelParallel::consecutive_experts
  /// Tokens of the fullest expert rank over their mean; nothing: balanced, and nobody says so.
  std::optional<double> imbalance{};
  std::shared_ptr<const TokenHistogram> histogram{};  ///< or what that comes from, by layer
  bool natural_routing = false;  ///< `imbalance` is natural_imbalance() of the network's experts
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int virtual_stages = 1;             ///< chunks of the model on each rank of a pipeline
  std::vector<std::int64_t> split{};  ///< blocks of each stage; empty: equal parts
  enum class Balance { none, time, memory };
  Balance balance =
      Balance::none;  ///< what `split` evens out (balanced_split()); none: it is given
  std::optional<PipelineOrder> order{};  ///< read from a file, in the place of `schedule`
  std::string order_file{};
  /// Whose code sends and receives between stages. Megatron-LM's tensor ranks without sequence
  /// parallelism each send their part (scatter_gather_tensors_in_pipeline), and a rank asks for
  /// what its next computation needs before this one. torch.distributed.pipelining's send the
  /// whole, and ask as asked_behind() says.
  enum class Runtime { megatron, torch };
  Runtime runtime = Runtime::megatron;
  int micro_batches = 1;  ///< of a step, of a replica of the model
  /// A step is so many rounds of the schedule, between which the pipeline drains; each has its part
  /// of the micro-batches.
  int gradient_accumulation = 1;

  /// Whether experts' tokens are even because nobody says how they fall.
  bool takes_even_routing() const {
    return mesh.expert > 1 && !imbalance && !histogram && !fake_balanced_gate && !natural_routing;
  }
};

/// A parameter server with bounded staleness s: a worker's iteration k starts after every worker's
/// iteration k-s-1 is applied. 0: synchronous (BSP), unbounded: asynchronous (ASP), between: SSP
/// (Ho et al. 2013).
struct ParameterServer {
  int servers = 1;
  std::string server_host{};  ///< a node group's name, or "worker": on the CPUs of the workers' own
                              ///< nodes; empty: a group without GPUs if there is one, else "worker"
  std::optional<std::uint32_t> staleness = 0;  ///< nothing: unbounded
  int backup_workers = 0;  ///< of the workers, the last this many gradients of an iteration are
                           ///< dropped (staleness 0 only; Chen et al. 2016)
  /// Of gradient bytes into parameters, one server, the optimizer's step on them included. Nothing:
  /// as its host's memory and cores allow (server_host.hpp).
  std::optional<BytesPerSecond> apply_rate{};
  /// Who a worker is without a layout: every GPU; or every node, whose GPUs sum their gradients (a
  /// reduce_scatter) before its first GPU sends them once, and share what that receives (an
  /// all_gather). So do MXNet's kvstore and BytePS. A node's update counts once: staleness,
  /// backup_workers and the clocks of bounded workers are of nodes then.
  enum class Aggregate { none, node };
  Aggregate aggregate = Aggregate::none;
  /// Bytes of messages that the CPU of a worker, or of a server, gets through per second, each way:
  /// serialization, copies, the network's stack. A worker's come before a push and after a pull,
  /// for each server beside the others; a server's wait in its queue. Nothing: they take no time.
  std::optional<BytesPerSecond> worker_cpu_rate{}, server_cpu_rate{};
  bool usual_worker_cpu = false, usual_server_cpu = false;  ///< taken where nobody said them
  double messages_error = 0;  ///< half-width of the 90 % interval of ln(time) of these
  /// Whose server it is: one of platforms/servers.yaml, which has the rates where nobody says them.
  std::string server = "ours";
  /// CPU time of each tensor's message beside its bytes, of worker and server. Nothing: as `server`
  /// has it.
  std::optional<Seconds> per_message{};
  /// Like servers, each on a node of its own, that one is played for (one_for_like_servers()).
  int stands_for = 1;
  enum class Partition {
    size,
    unit
  };  ///< parameters split evenly by bytes, or whole units in turn
  Partition partition = Partition::size;
  /// Where it is given: units in slices of at most so many bytes, to the servers in turn.
  std::optional<Bytes> slice{};
  bool layerwise = false;  ///< pull and push each unit on its own, overlapping compute
  /// Which message a worker and a server exchange next: the one that has waited longest, or the one
  /// of the unit nearest to the input, which the next forward needs first (P3: Jayarajan et al.,
  /// MLSys 2019; ByteScheduler: Peng et al., SOSP 2019). `priority` needs `layerwise`.
  enum class Scheduling { fifo, priority };
  /// How a worker's pull comes behind its own push. `own_request`: it is sent once the push is
  /// acknowledged, and waits in the server's queue behind what came meanwhile (ps-lite's one
  /// thread; MXNet's kvstore_dist and BytePS send it so). `behind_push`: it is sent with the push,
  /// and answered before the server takes in what others sent (calibrate/server). Felt where the
  /// server is waited for and is not synchronous.
  enum class Protocol { own_request, behind_push };
  Protocol protocol = Protocol::own_request;
  Scheduling scheduling = Scheduling::fifo;
  /// Bounded or asynchronous: after so many synchronous rounds, in which all gradients are
  /// averaged.
  int warmup_rounds = 0;
  /// Bounded or asynchronous: share of the training's samples that all workers do in step before
  /// (Sync-Switch: Li et al., ICDCS 2021), with a rate in proportion to their batch. What is played
  /// is the part after it.
  double switch_share = 0;
  /// Above 1: local SGD. A worker takes so many steps of its own between its pull and its push, and
  /// sends how far they led; a synchronous server averages that (FedAvg: McMahan et al.,
  /// "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017).
  /// The optimizer of these steps begins anew with each pull, as FedAvg's clients and the workers
  /// of asynchronous DiLoCo do (inner_loop of github.com/google-deepmind/asyncdiloco).
  int local_steps = 1;
  /// With local steps: what the server makes of each pseudo-gradient that comes, or of a round's
  /// mean.
  std::optional<OuterSgd> outer{};
  OuterCompression compression = OuterCompression::none;  ///< of pseudo-gradients on their way
  /// Synchronous: in each round only so many of the workers, drawn anew, take part (FedAvg's C); 0:
  /// all.
  int sampled_workers = 0;
};

/// Nothing keeps replicas equal: each is a GPU on its own.
struct Alone {};

/// Local SGD without a server: a replica takes `period` steps of its own, then all average their
/// parameters by one all_reduce of them (PyTorch's PeriodicModelAverager; Stich, "Local SGD
/// converges fast and communicates little", ICLR 2019). With an outer optimizer it is DiLoCo
/// (Douillard et al. 2023), in fragments Streaming DiLoCo (Douillard et al. 2025). An iteration of
/// the schedule is one period.
struct LocalSgd {
  int period = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// So many runs of consecutive ranks; 0: a GPU each where it is Alone, else a site or a node.
  int replicas = 0;
  std::optional<OuterSgd> outer{};
  OuterCompression compression = OuterCompression::none;  ///< of pseudo-gradients on their way
  int fragments = 1;      ///< equal parts of the parameters, each with its own turn in a period
  int overlap_steps = 0;  ///< steps between what a fragment sends and what it makes of the mean
};
/// A training is a product of three axes. Outside this module nobody asks for an alternative of
/// `sync` (tests/structure/check).
struct Strategy {
  using Kind = std::variant<Ddp, Zero1, Fsdp, ParameterServer, Alone>;

  Kind sync{};                          ///< how replicas stay equal
  std::optional<Layout> layout{};       ///< how ranks share a replica; nothing: it is one GPU
  std::optional<LocalSgd> local_sgd{};  ///< what is averaged between groups that `sync` keeps equal

  Strategy() = default;
  template <std::convertible_to<Kind> Options>
  Strategy(Options kind, std::optional<Layout> ranks = {}, std::optional<LocalSgd> steps = {})
      : sync(std::move(kind)), layout(std::move(ranks)), local_sgd(std::move(steps)) {}
  /// Of replicas that PyTorch's or Megatron-LM's DDP keeps equal.
  Strategy(Layout ranks) : layout(std::move(ranks)) {}
  /// Of GPUs on their own between two averages.
  Strategy(LocalSgd steps) : sync(Alone{}), local_sgd(std::move(steps)) {}
};
std::string strategy_name(const Strategy& strategy);  ///< "ddp", "fsdp full_shard", "ps ssp 2", ...

/// The options of what keeps replicas equal; null where it is another.
const Ddp* ddp_in(const Strategy& strategy);
const Zero1* zero_in(const Strategy& strategy);
const Fsdp* fsdp_in(const Strategy& strategy);
const ParameterServer* server_in(const Strategy& strategy);
ParameterServer* server_in(Strategy& strategy);
/// Each GPU trains on its own between two averages.
bool is_alone(const Strategy& strategy);
/// The layout is of all ranks: no server, and no average of local SGD, stands between them.
bool is_one_layout(const Strategy& strategy);

/// Parts of the cluster that take steps of their own between two averages of local SGD, or one.
/// InputError (without a place) where GPUs do not divide among them.
std::size_t replica_count(const Strategy& strategy, const Cluster& cluster);
/// What the first of these has of the cluster; its ranks are consecutive. Without local SGD: all.
Cluster cluster_of_replica(const Strategy& strategy, const Cluster& cluster);
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

/// What the units of a model of that precision compute in: MixedPrecision's param_dtype takes the
/// place of the parameters' own type, and autocast stays as it is.
Precision computes_in(const Fsdp& options, Precision precision);
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
  /// The inputs of checkpointed units wait for backward in host memory (torchtune's
  /// OffloadActivations).
  bool offloads_activations = false;
  /// optimizer.zero_grad(set_to_none=...): gradients are given back after each step.
  bool set_to_none = true;
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

/// DDP's buckets as c10d's compute_bucket_assignment_by_size makes them after the first iteration:
/// tensors in order of readiness fill a bucket until it holds its cap (the first `first_cap`, then
/// `cap`) or more.
struct Bucket {
  Bytes size;              ///< of the gradients, uncompressed
  std::size_t first_unit;  ///< the earliest unit (in forward order) with a gradient in it: ready
                           ///< when that unit's backward ends
  bool experts = false;    ///< of experts' gradients
  bool wakes = true;       ///< the first that a cycle finds ready (Ddp::cycle_time)
};
std::vector<Bucket> assign_buckets(const Model& model, Bytes element, Bytes first_cap, Bytes cap);
/// Of units [first, end) alone; `apart`: experts' gradients fill buckets of their own.
std::vector<Bucket> assign_buckets(const Model& model, std::size_t first, std::size_t end,
                                   Bytes element, Bytes first_cap, Bytes cap, bool apart = false);
/// The sizes of those that it makes before it knows in which order gradients become ready: tensors
/// in order of registration, the buckets last to first. Of experts' tensors, of the others, or of
/// all (nothing).
std::vector<Bytes> registration_buckets(const Model& model, Bytes element, Bytes first_cap,
                                        Bytes cap, std::optional<bool> experts = {});

}  // namespace rehearse::inline strategy
