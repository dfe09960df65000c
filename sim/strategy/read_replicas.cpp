// How replicas of all parameters are kept the same: DDP of each framework, and ZeRO on top of it.
#include "base/error.hpp"
#include "strategy/read_kinds.hpp"
#include "strategy/strategy_keys.hpp"
#include "strategy/zero_keys.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr Choices<TorchDdp::Compression> kHooks = {{"none", TorchDdp::Compression::none},
                                                   {"fp16", TorchDdp::Compression::fp16},
                                                   {"bf16", TorchDdp::Compression::bf16}};
constexpr Choices<Horovod::Compression> kCasts = {
    {"none", Horovod::Compression::none},
    {"fp16", Horovod::Compression::fp16},
    {"bf16", Horovod::Compression::bf16},
    {"activations", Horovod::Compression::activations}};
constexpr Choices<bool> kOrders = {{"fifo", false}, {"priority", true}};
const std::string kDdp = "strategy.ddp.", kZero = "strategy.zero.";

/// Keys of `strategy.ddp` in any framework, and of `strategy.zero` where a stage has them.
struct DdpKeys : KeyList {
  KeyOf<double> bucket_cap_mb =
      add("bucket_cap_mb", form::positive().in("MiB"), "25 or 100 or 128 or 1000000",
          "Gradients in one bucket, at the least.");
  KeyOf<double> first_bucket_mb = add("first_bucket_mb", form::positive().in("MiB"),
                                      "1 or 128 or 1000000", "The same of the first bucket.");
  KeyOf<bool> gradient_as_bucket_view = add<bool>(
      "gradient_as_bucket_view", "false", "Gradients are views of the buckets: one copy less.");
  KeyOf<bool> static_graph =
      add<bool>("static_graph", "false", "Stated in the report; changes no step.");
  KeyOf<Horovod::Compression> compression =
      add("compression", form::choice(kCasts), "none or activations",
          "Communication hook; `activations`: as wide as these, of tensorflow, mxnet and horovod.");
  KeyOf<TorchDdp::Compression> hook{"compression", form::choice(kHooks)};
  KeyOf<Seconds> cycle_time = add<Seconds>("cycle_time", "(0 s; of horovod 1 ms, before 0.21 5 ms)",
                                           "How often a thread looks which tensors are ready.",
                                           "Horovod HOROVOD_CYCLE_TIME");
  KeyOf<Seconds> per_collective =
      add<Seconds>("per_collective", "(0 s; of torch before 2.0 200 us)",
                   "Time of each collective on its stream beside its own.");
  KeyOf<Bytes> partition =
      add<Bytes>("partition", "(of bytescheduler 32 MB)",
                 "Larger buckets are reduced in equal slices of at most that.", "ByteScheduler");
  KeyOf<bool> scheduling =
      add("scheduling", form::choice(kOrders), "fifo or priority",
          "`priority`: forward waits for its own gradients alone, and the nearest to the input go "
          "first.",
          "ByteScheduler");
  KeyOf<bool> overlap_grad_reduce =
      add<bool>("overlap_grad_reduce", "false",
                "Of megatron and tensorflow: buckets are reduced as they fill.", "Megatron-LM");
  KeyOf<bool> overlap_param_gather =
      add<bool>("overlap_param_gather", "false",
                "Of megatron, of zero: a unit waits for its own parameters alone.", "Megatron-LM");
  KeyOf<bool> grad_reduce_in_fp32 =
      add<bool>("grad_reduce_in_fp32", "(true of bf16_master and fp8)",
                "Of megatron: gradients add up and travel in fp32.", "Megatron-LM");
  KeyOf<bool> check_for_nan_in_grad =
      add<bool>("check_for_nan_in_grad", "true",
                "Of megatron: gradients are read for NaNs before they are reduced.", "Megatron-LM");
  KeyOf<bool> fp8_param_gather = add<bool>(
      "fp8_param_gather", "false",
      "Of megatron, of zero, in fp8 and mxfp8: weights of blocks are kept in 8 bits alone.",
      "Megatron-LM");
  KeyOf<bool> fp4_param_gather = add<bool>(
      "fp4_param_gather", "false",
      "Of megatron, of zero, in nvfp4: weights of blocks are kept in 4 bits alone, and gathered in "
      "16.",
      "Megatron-LM");
  KeyOf<int> gradient_accumulation =
      add("gradient_accumulation", form::count(1, kMostMicroBatches), "1",
          "Micro-batches of a step, all but the last under no_sync().");
  KeyOf<CollectiveAlgorithm> algorithm = add("algorithm", form::choice(kAlgorithms), "automatic",
                                             "Algorithm of the collectives.", "NCCL");
};

const DdpKeys& of_ddp() {
  static const DdpKeys kKeys;
  return kKeys;
}

/// A quantity for which some frameworks have a default of their own; else none.
template <class Quantity>
Quantity quantity_or_none(Map& map, const std::string& section, const KeyOf<Quantity>& entry,
                          Framework& framework) {
  return framework.find(section + entry.name) ? framework.value_or(map, section, entry)
                                              : entry.in(map).value_or(Quantity(0));
}

/// Micro-batches, and by which algorithm what they made is reduced.
template <class Sync>
void read_common(Map& map, Sync& sync) {
  sync.gradient_accumulation = of_ddp().gradient_accumulation.in(map, sync.gradient_accumulation);
  sync.algorithm = of_ddp().algorithm.in(map, sync.algorithm);
}

/// Reads the section `strategy.ddp.` or `strategy.zero.`.
TorchDdp read_torch(Map& map, const std::string& section, Framework& framework) {
  TorchDdp ddp{.zero_redundancy_optimizer = section == kZero};
  ddp.bucket_cap_mb = framework.value_or(map, section, of_ddp().bucket_cap_mb);
  ddp.first_bucket_mb = framework.value_or(map, section, of_ddp().first_bucket_mb);
  ddp.gradient_as_bucket_view = framework.value_or(map, section, of_ddp().gradient_as_bucket_view);
  ddp.static_graph = of_ddp().static_graph.in(map, ddp.static_graph);
  ddp.compression = of_ddp().hook.in(map, ddp.compression);
  ddp.per_collective = quantity_or_none(map, section, of_ddp().per_collective, framework);
  read_common(map, ddp);
  return ddp;
}

/// Slices of buckets, and which of them is reduced next.
void read_order(Map& map, const Reading& reading, Horovod& horovod) {
  constexpr Bytes kLeast(1024);
  Framework& framework = reading.framework;
  horovod.partition = quantity_or_none(map, kDdp, of_ddp().partition, framework);
  if (map.has("partition") && horovod.partition < kLeast)
    map.require("partition").fail("a slice has at least 1 KiB", "partition: 4MiB");
  horovod.by_priority = framework.value_or(map, kDdp, of_ddp().scheduling, horovod.by_priority);
  if (horovod.by_priority && !horovod.overlap_grad_reduce)
    map.at_key("scheduling")
        .fail("all buckets go behind backward, where none is more urgent",
              "remove overlap_grad_reduce: false, or scheduling: fifo");
  if (horovod.by_priority && reading.has_mesh())
    map.at_key("scheduling")
        .fail("ranks that share a model have gradients to sum before any of them is updated",
              "scheduling: fifo, or a GPU for each replica");
}

Horovod read_horovod(Map& map, const Reading& reading) {
  Framework& framework = reading.framework;
  Horovod horovod;
  horovod.bucket_cap_mb = framework.value_or(map, kDdp, of_ddp().bucket_cap_mb);
  horovod.first_bucket_mb = framework.value_or(map, kDdp, of_ddp().first_bucket_mb);
  horovod.compression = framework.value_or(map, kDdp, of_ddp().compression, horovod.compression);
  if (framework.find(kDdp + "overlap_grad_reduce"))
    horovod.overlap_grad_reduce = framework.value_or(map, kDdp, of_ddp().overlap_grad_reduce);
  horovod.cycle_time = quantity_or_none(map, kDdp, of_ddp().cycle_time, framework);
  horovod.per_collective = quantity_or_none(map, kDdp, of_ddp().per_collective, framework);
  read_order(map, reading, horovod);
  read_common(map, horovod);
  return horovod;
}

/// It returns what the map says; else nothing, and the framework's own rule is noted.
template <class T>
std::optional<T> noted(Map& map, const std::string& section, const KeyOf<T>& entry,
                       Framework& framework) {
  if (!map.has(entry.name)) framework.note(section + entry.name);
  return entry.in(map);
}

/// Reads the keys of Megatron-LM's DistributedDataParallelConfig.
MegatronDdp read_megatron(Map& map, const std::string& section, Framework& framework) {
  MegatronDdp ddp{.use_distributed_optimizer = section == kZero};
  ddp.bucket_cap_mb = noted(map, section, of_ddp().bucket_cap_mb, framework);
  ddp.overlap_grad_reduce = framework.value_or(map, section, of_ddp().overlap_grad_reduce);
  ddp.overlap_param_gather = framework.value_or(map, section, of_ddp().overlap_param_gather);
  if (ddp.overlap_param_gather && !map.has("stage"))
    map.at_key("overlap_param_gather")
        .fail("no parameters are gathered without the distributed optimizer",
              "write zero: {stage: 1, overlap_grad_reduce: true, overlap_param_gather: true} "
              "instead of ddp, or remove it");
  if (ddp.overlap_param_gather && !ddp.overlap_grad_reduce)
    map.at_key("overlap_param_gather")
        .fail("Megatron-LM has it beside overlap_grad_reduce alone",
              "add overlap_grad_reduce: true, or remove it");
  ddp.grad_reduce_in_fp32 = noted(map, section, of_ddp().grad_reduce_in_fp32, framework);
  ddp.check_for_nan_in_grad = framework.value_or(map, section, of_ddp().check_for_nan_in_grad);
  const auto gathers = [&](const KeyOf<bool>& entry) {
    const bool narrow = entry.in(map, false);
    if (narrow && !map.has("stage"))
      map.at_key(entry.name)
          .fail("no parameters are gathered without the distributed optimizer",
                "write zero: {stage: 1, ...} instead of ddp, or remove it");
    return narrow;
  };
  ddp.fp8_param_gather = gathers(of_ddp().fp8_param_gather);
  ddp.fp4_param_gather = gathers(of_ddp().fp4_param_gather);
  ddp.algorithm = of_ddp().algorithm.in(map, ddp.algorithm);
  return ddp;
}

}  // namespace

std::vector<Key> ddp_keys() { return of_ddp().lines(); }

Strategy read_replicas(Map& map, const std::string& section, const Reading& reading) {
  Framework& framework = reading.framework;
  const std::string code = framework.word(kReplicasCode);
  if (code == "megatron") return read_megatron(map, section, framework);
  if (code == "deepspeed") {
    DeepspeedAllreduce all;
    read_common(map, all);
    return all;
  }
  if (code == "horovod") return read_horovod(map, reading);
  check(code == "torch", "replicas.code of a framework is one of the four");
  return read_torch(map, section, framework);
}

DeepspeedBuckets read_deepspeed(Map& map, std::int64_t stage, Framework& framework) {
  DeepspeedBuckets zero{.partitions_gradients = stage == 2};
  zero.reduce_bucket_size = framework.value_or(map, kZero, of_zero().reduce_bucket_size);
  zero.overlap_comm = of_zero().read_overlap_comm(map, false, framework);
  zero.contiguous_gradients = framework.value_or(map, kZero, of_zero().contiguous_gradients);
  zero.communicates_fp32 = of_zero().communication_data_type.in(map, false);
  if (stage == 1 && !zero.contiguous_gradients)
    map.at_key("contiguous_gradients")
        .fail("stage 1 is known with contiguous gradients alone", "remove it, or stage: 2");
  read_common(map, zero);
  return zero;
}

}  // namespace rehearse::inline strategy
