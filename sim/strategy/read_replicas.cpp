// How replicas of all parameters are kept the same: DDP of each framework, and ZeRO on top of it.
#include "base/error.hpp"
#include "strategy/read_kinds.hpp"

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

/// A time for which some frameworks have a default of their own; else none.
Seconds time_or(Map& map, const std::string& section, const std::string& key,
                Framework& framework) {
  const std::optional<Value> value = map.optional(key);
  if (value) return value->as_seconds();
  const std::optional<std::string> usual = framework.find(section + key);
  if (!usual) return Seconds(0);
  framework.note(section + key);
  return parse_seconds(*usual);
}

/// A choice for which some frameworks have a default of their own.
template <class Enum>
Enum choice_or(Map& map, const std::string& key, Enum fallback, Choices<Enum> choices,
               Framework& framework) {
  return framework.find(kDdp + key)
             ? value_of(choices, framework.choice_or(map, kDdp, key, names_of(choices)))
             : read_choice(map, key, fallback, choices);
}

/// Micro-batches, and by which algorithm what they made is reduced.
template <class Sync>
void read_common(Map& map, Sync& sync) {
  sync.gradient_accumulation =
      count_or(map, "gradient_accumulation", sync.gradient_accumulation, 1, kMostMicroBatches);
  sync.algorithm = read_choice(map, "algorithm", sync.algorithm, kAlgorithms);
}

/// Reads the section `strategy.ddp.` or `strategy.zero.`.
TorchDdp read_torch(Map& map, const std::string& section, Framework& framework) {
  TorchDdp ddp{.zero_redundancy_optimizer = section == kZero};
  ddp.bucket_cap_mb = framework.number_or(map, section, "bucket_cap_mb");
  ddp.first_bucket_mb = framework.number_or(map, section, "first_bucket_mb");
  ddp.gradient_as_bucket_view = framework.bool_or(map, section, "gradient_as_bucket_view");
  ddp.static_graph = map.bool_or("static_graph", ddp.static_graph);
  ddp.compression = read_choice(map, "compression", ddp.compression, kHooks);
  ddp.per_collective = time_or(map, section, "per_collective", framework);
  read_common(map, ddp);
  return ddp;
}

/// Slices of buckets, and which of them is reduced next.
void read_order(Map& map, const Reading& reading, Horovod& horovod) {
  constexpr Bytes kLeast(1024);
  Framework& framework = reading.framework;
  if (const auto given = map.optional("partition")) {
    horovod.partition = given->as_bytes();
    if (horovod.partition < kLeast) given->fail("a slice has at least 1 KiB", "partition: 4MiB");
  } else if (const auto usual = framework.find(kDdp + "partition")) {
    framework.note(kDdp + "partition");
    horovod.partition = parse_bytes(*usual);
  }
  horovod.by_priority = choice_or(map, "scheduling", horovod.by_priority, kOrders, framework);
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
  horovod.bucket_cap_mb = framework.number_or(map, kDdp, "bucket_cap_mb");
  horovod.first_bucket_mb = framework.number_or(map, kDdp, "first_bucket_mb");
  horovod.compression = choice_or(map, "compression", horovod.compression, kCasts, framework);
  if (framework.find(kDdp + "overlap_grad_reduce"))
    horovod.overlap_grad_reduce = framework.bool_or(map, kDdp, "overlap_grad_reduce");
  horovod.cycle_time = time_or(map, kDdp, "cycle_time", framework);
  horovod.per_collective = time_or(map, kDdp, "per_collective", framework);
  read_order(map, reading, horovod);
  read_common(map, horovod);
  return horovod;
}

/// Reads the keys of Megatron-LM's DistributedDataParallelConfig.
MegatronDdp read_megatron(Map& map, const std::string& section, Framework& framework) {
  MegatronDdp ddp{.use_distributed_optimizer = section == kZero};
  if (const auto cap = map.optional("bucket_cap_mb"))
    ddp.bucket_cap_mb = cap->as_positive_number();
  else
    framework.note(section + "bucket_cap_mb");
  ddp.overlap_grad_reduce = framework.bool_or(map, section, "overlap_grad_reduce");
  ddp.overlap_param_gather = framework.bool_or(map, section, "overlap_param_gather");
  if (ddp.overlap_param_gather && !map.has("stage"))
    map.at_key("overlap_param_gather")
        .fail("no parameters are gathered without the distributed optimizer",
              "write zero: {stage: 1, overlap_grad_reduce: true, overlap_param_gather: true} "
              "instead of ddp, or remove it");
  if (ddp.overlap_param_gather && !ddp.overlap_grad_reduce)
    map.at_key("overlap_param_gather")
        .fail("Megatron-LM has it beside overlap_grad_reduce alone",
              "add overlap_grad_reduce: true, or remove it");
  if (const auto wide = map.optional("grad_reduce_in_fp32"))
    ddp.grad_reduce_in_fp32 = wide->as_bool();
  else
    framework.note(section + "grad_reduce_in_fp32");
  ddp.check_for_nan_in_grad = framework.bool_or(map, section, "check_for_nan_in_grad");
  const auto gathers = [&](const char* key) {
    const bool narrow = map.bool_or(key, false);
    if (narrow && !map.has("stage"))
      map.at_key(key).fail("no parameters are gathered without the distributed optimizer",
                           "write zero: {stage: 1, ...} instead of ddp, or remove it");
    return narrow;
  };
  ddp.fp8_param_gather = gathers("fp8_param_gather");
  ddp.fp4_param_gather = gathers("fp4_param_gather");
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

}  // namespace

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
  zero.reduce_bucket_size =
      framework.integer_or(map, kZero, "reduce_bucket_size", 0, kMostParameters);
  zero.overlap_comm = map.bool_or("overlap_comm", false);
  if (!map.has("overlap_comm")) framework.note(kZero + "overlap_comm");
  zero.contiguous_gradients = framework.bool_or(map, kZero, "contiguous_gradients");
  const std::string as_stored = "as_stored";
  zero.communicates_fp32 =
      map.choice_or("communication_data_type", as_stored, {as_stored, "fp32"}) == "fp32";
  if (stage == 1 && !zero.contiguous_gradients)
    map.at_key("contiguous_gradients")
        .fail("stage 1 is known with contiguous gradients alone", "remove it, or stage: 2");
  read_common(map, zero);
  return zero;
}

}  // namespace rehearse::inline strategy
