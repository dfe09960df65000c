#include "keys/keys.hpp"

namespace rehearse {
namespace {

constexpr const char* kReader = "sim/strategy/read_strategy.cpp";
constexpr const char* kAlgorithms = "automatic | ring | tree | hierarchical | direct";
constexpr const char* kTypes = "fp32 | bf16 | fp16";

}  // namespace

std::vector<KeySection> strategy_keys() {
  return {
      {"strategy.", "Strategy", "Rehearse", "sim/strategy/strategy.cpp",
       {{"ddp", "map", "-", "Data parallel: gradients are all-reduced in buckets."},
        {"fsdp", "map", "-", "Fully sharded data parallel."},
        {"fsdp2", "map", "-", "The same, parameter by parameter."},
        {"zero", "map", "-", "ZeRO, stages 1 to 3."},
        {"ps", "map", "-", "Parameter server."},
        {"local_sgd", "map", "-", "Own steps, then averaged parameters."}}},

      {"strategy.", "Layout", "Megatron-LM; torchtitan", "sim/strategy/read_layout.cpp",
       {{"tensor_parallel", "integer >= 1", "1", "Ranks that share each layer."},
        {"pipeline_parallel", "integer >= 1", "1", "Ranks that share the layers in turn."},
        {"sequence_parallel", "true or false", "false",
         "Norms and sums on 1/tensor_parallel of the tokens."},
        {"context_parallel", "integer >= 1 or map", "1", "Ranks that share each sequence."},
        {"context_parallel.degree", "integer >= 1", "required", "The same."},
        {"context_parallel.method", "ring | ulysses | all_gather", "ring",
         "How attention reaches the other ranks' tokens."},
        {"expert_parallel", "integer >= 1", "1", "Ranks that share the experts."},
        {"pipeline", "map", "-", "How stages take turns."},
        {"micro_batches", "integer >= 1", "(the stages)",
         "Of a step, of a replica of the model; `model.batch_per_gpu` is one's samples."},
        {"micro_batch_size", "integer >= 1 (samples)", "-",
         "Or: `model.batch_per_gpu` is a replica's step, in parts of this size."},
        {"order", "text", "tp-cp-ep-dp-pp", "How ranks are numbered: the first axis is fastest."}}},

      {"strategy.pipeline.", "Pipeline", "Megatron-LM; torch.distributed.pipelining",
       "sim/strategy/read_layout.cpp",
       {{"schedule", "gpipe | 1f1b | interleaved_1f1b | zero_bubble | zbv | dual_pipe_v or text",
         "1f1b", "Order of the micro-batches; a FILE.csv as PyTorch writes it."},
        {"virtual_stages", "integer >= 1", "(1; of interleaved_1f1b, zbv and dual_pipe_v 2)",
         "Parts of the model on each rank."},
        {"split", "auto or list of integer >= 0", "auto", "Layers of each stage."}}},

      {"strategy.ddp.", "DDP", "PyTorch DistributedDataParallel", kReader,
       {{"bucket_cap_mb", "number > 0 (MiB)", "25", "Gradients in one bucket, at the least."},
        {"first_bucket_mb", "number > 0 (MiB)", "1", "The same of the first bucket."},
        {"gradient_as_bucket_view", "true or false", "false",
         "Gradients are views of the buckets: one copy less."},
        {"static_graph", "true or false", "false", "Stated in the report; changes no step."},
        {"compression", "none | fp16 | bf16", "none", "Communication hook."},
        {"gradient_accumulation", "integer >= 1", "1",
         "Micro-batches of a step, all but the last under no_sync()."},
        {"algorithm", kAlgorithms, "automatic", "Algorithm of the collectives.", "NCCL"}}},

      {"strategy.fsdp.", "FSDP", "PyTorch FullyShardedDataParallel", kReader,
       {{"sharding", "full_shard | shard_grad_op | hybrid_shard", "full_shard",
         "What is sharded: ZeRO-3, ZeRO-2, or ZeRO-3 in groups."},
        {"shard_group", "integer >= 1 (ranks)", "(the ranks of a node)",
         "Ranks that share one copy under hybrid_shard."},
        {"wrap", "unit | model or map", "unit", "What one FlatParameter holds."},
        {"wrap.min_num_params", "integer >= 1", "100000000",
         "Units are joined until they have so many parameters."},
        {"backward_prefetch", "backward_pre | backward_post | none", "backward_pre",
         "When backward gathers the next unit."},
        {"forward_prefetch", "true or false", "false", "Forward issues the next gather early."},
        {"limit_all_gathers", "true or false", "true", "At most two units are gathered at once."},
        {"param_dtype", kTypes, "(model.precision)", "MixedPrecision: what units compute in."},
        {"reduce_dtype", kTypes, "(param_dtype)", "MixedPrecision: gradients on the wire."},
        {"buffer_dtype", kTypes, "(fp32)", "MixedPrecision: buffers."},
        {"cpu_offload", "true or false", "false", "Shards and optimizer in host memory."},
        {"gradient_accumulation", "integer >= 1", "1", "Micro-batches of a step."},
        {"algorithm", kAlgorithms, "automatic", "Algorithm of the collectives.", "NCCL"},
        {"host_overhead", "time", "-", "Host time of FSDP's hooks per unit and pass.",
         "measured"}}},

      {"strategy.fsdp2.", "FSDP2", "PyTorch fully_shard", kReader,
       {{"reshard_after_forward", "true or false", "true",
         "Parameters are freed after forward, and gathered once more; the root's are kept."},
        {"shard_group", "integer >= 1 (ranks)", "-",
         "Ranks that share one copy, replicated over all others (HSDP)."},
        {"param_dtype", kTypes, "(model.precision)", "mp_policy: what units compute in."},
        {"reduce_dtype", kTypes, "(param_dtype)", "mp_policy: gradients on the wire."},
        {"cpu_offload", "true or false", "false", "Shards and optimizer in host memory."},
        {"gradient_accumulation", "integer >= 1", "1", "Micro-batches of a step."},
        {"algorithm", kAlgorithms, "automatic", "Algorithm of the collectives.", "NCCL"},
        {"host_overhead", "time", "-", "Host time of its hooks per unit and pass."}}},

      {"strategy.zero.", "ZeRO", "DeepSpeed; PyTorch ZeroRedundancyOptimizer", kReader,
       {{"stage", "integer >= 1", "required",
         "1 takes the keys of `strategy.ddp`, 2 and 3 those of `strategy.fsdp`."},
        {"KEY", "as strategy.ddp or as strategy.fsdp", "-", "Options of the stage."}}},

      {"strategy.ps.", "Parameter server", "Rehearse", kReader,
       {{"servers", "integer >= 1", "1", "Servers that share the parameters."},
        {"server_host", "a name or text (a node group)",
         "(a group without GPUs, else worker)", "Where the servers run."},
        {"staleness", "integer >= 0 (updates)", "0",
         "0: synchronous; N: workers at most N apart (SSP); `unbounded`: asynchronous.",
         "Ho et al. 2013"},
        {"backup_workers", "integer >= 0", "0", "The last gradients of a round are dropped.",
         "Chen et al. 2016"},
        {"apply_rate", "data rate", "(from host_bandwidth and cores)",
         "Gradient bytes that one server applies per second."},
        {"aggregate", "none | node", "none", "`node`: a node sums its gradients before a push.",
         "MXNet kvstore, BytePS"},
        {"worker_cpu_rate", "data rate", "(no time)", "Bytes that a worker's CPU packs per second."},
        {"server_cpu_rate", "data rate", "(no time)", "The same of a server, in its queue."},
        {"partition", "size | unit", "size", "How servers share the parameters."},
        {"layerwise", "true or false", "false", "Units are pulled and pushed one by one."},
        {"warmup_rounds", "integer >= 0", "0", "Synchronous rounds at first."},
        {"local_steps", "integer >= 1", "1", "A worker's own steps between pull and push.",
         "McMahan et al. 2017"},
        {"sampled_workers", "integer >= 0", "0", "Workers drawn for each round; 0: all.",
         "McMahan et al. 2017"}}},

      {"strategy.local_sgd.", "Local SGD", "PyTorch PeriodicModelAverager", kReader,
       {{"period", "integer >= 1 (steps)", "required", "Own steps between two averages."},
        {"algorithm", kAlgorithms, "automatic", "Algorithm of the all_reduce.", "NCCL"}}},

      {"optimizer.", "Optimizer", "PyTorch torch.optim; LAMB: You et al. 2020",
       "sim/scenario/run_section.cpp",
       {{"NAME", "map", "sgd", "One of `rehearse list optimizers`."},
        {"NAME.fused", "true or false", "false", "One kernel for all parameters."},
        {"NAME.foreach", "true or false", "true", "Multi-tensor kernels."},
        {"NAME.state_dtype", "fp32 | bf16 | fp16", "(as model.precision says)",
         "Type of the optimizer's state."},
        {"NAME.master_dtype", "fp32 | none", "(as model.precision says)", "Master weights.",
         "DeepSpeed, Megatron-LM"}}}};
}

}  // namespace rehearse
