// How replicas of all parameters are kept the same: DDP of each framework, and ZeRO on top of it.
#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr Choices<Ddp::Compression> kHooks = {{"none", Ddp::Compression::none},
                                              {"fp16", Ddp::Compression::fp16},
                                              {"bf16", Ddp::Compression::bf16},
                                              {"activations", Ddp::Compression::activations}};

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

constexpr Choices<bool> kOrders = {{"fifo", false}, {"priority", true}};

/// Slices of buckets, and which of them is reduced next.
void read_order(Map& map, const std::string& section, Framework& framework, Ddp& ddp) {
  constexpr Bytes kLeast(1024);
  if (const auto given = map.optional("partition")) {
    ddp.partition = given->as_bytes();
    if (ddp.partition < kLeast) given->fail("a slice has at least 1 KiB", "partition: 4MiB");
  } else if (const auto usual = framework.find(section + "partition")) {
    framework.note(section + "partition");
    ddp.partition = parse_bytes(*usual);
  }
  ddp.by_priority =
      framework.find(section + "scheduling")
          ? value_of(kOrders, framework.choice_or(map, section, "scheduling", names_of(kOrders)))
          : read_choice(map, "scheduling", ddp.by_priority, kOrders);
  if (ddp.by_priority && ddp.behind_backward)
    map.at_key("scheduling")
        .fail("all buckets go behind backward, where none is more urgent",
              "remove overlap_grad_reduce: false, or scheduling: fifo");
}

/// Reads the section `strategy.ddp.` or `strategy.zero.`.
Ddp read_ddp_options(Map& map, const std::string& section, Framework& framework) {
  Ddp ddp;
  ddp.bucket_cap_mb = framework.number_or(map, section, "bucket_cap_mb");
  ddp.first_bucket_mb = framework.number_or(map, section, "first_bucket_mb");
  ddp.gradient_as_bucket_view = framework.bool_or(map, section, "gradient_as_bucket_view");
  ddp.static_graph = map.bool_or("static_graph", ddp.static_graph);
  if (framework.find(section + "compression"))
    ddp.compression =
        value_of(kHooks, framework.choice_or(map, section, "compression", names_of(kHooks)));
  else
    ddp.compression = read_choice(map, "compression", ddp.compression, kHooks);
  if (framework.find(section + "overlap_grad_reduce"))
    ddp.behind_backward = !framework.bool_or(map, section, "overlap_grad_reduce");
  ddp.cycle_time = time_or(map, section, "cycle_time", framework);
  ddp.per_collective = time_or(map, section, "per_collective", framework);
  if (section == "strategy.ddp.") read_order(map, section, framework, ddp);
  ddp.gradient_accumulation =
      count_or(map, "gradient_accumulation", ddp.gradient_accumulation, 1, kMostMicroBatches);
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

/// PyTorch's, beside ranks that share a model: buckets are reduced as they fill.
Ddp read_hooked_options(Map& map, const std::string& section, Framework& framework) {
  Ddp ddp = read_ddp_options(map, section, framework);
  if (ddp.by_priority)
    map.at_key("scheduling")
        .fail("ranks that share a model have gradients to sum before any of them is updated",
              "scheduling: fifo, or a GPU for each replica");
  ddp.reducer = true;
  ddp.overlap_grad_reduce = true;
  ddp.grad_reduce_in_fp32 = false;
  ddp.check_for_nan_in_grad = false;
  return ddp;
}

/// Reads the keys of Megatron-LM's DistributedDataParallelConfig.
Ddp read_buffered_options(Map& map, const std::string& section, Framework& framework) {
  Ddp ddp{.bucket_cap_mb = 0};
  if (const auto cap = map.optional("bucket_cap_mb"))
    ddp.bucket_cap_mb = cap->as_positive_number();
  else
    framework.note(section + "bucket_cap_mb");
  ddp.overlap_grad_reduce = framework.bool_or(map, section, "overlap_grad_reduce");
  ddp.overlap_param_gather = framework.bool_or(map, section, "overlap_param_gather");
  if (ddp.overlap_param_gather && !map.has("stage"))
    map.at_key("overlap_param_gather")
        .fail("no parameters are gathered without the distributed optimizer",
              "write zero: {stage: 1, ...} instead of ddp, or remove it");
  if (ddp.overlap_param_gather && !ddp.overlap_grad_reduce)
    map.at_key("overlap_param_gather")
        .fail("Megatron-LM has it beside overlap_grad_reduce alone",
              "add overlap_grad_reduce: true, or remove it");
  if (const auto wide = map.optional("grad_reduce_in_fp32"))
    ddp.grad_reduce_in_fp32 = wide->as_bool();
  else
    framework.note(section + "grad_reduce_in_fp32");
  ddp.check_for_nan_in_grad = framework.bool_or(map, section, "check_for_nan_in_grad");
  ddp.fp8_param_gather = map.bool_or("fp8_param_gather", false);
  if (ddp.fp8_param_gather && !map.has("stage"))
    map.at_key("fp8_param_gather")
        .fail("no parameters are gathered without the distributed optimizer",
              "write zero: {stage: 1, ...} instead of ddp, or remove it");
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

/// DeepSpeed's without ZeRO: gradients are reduced behind the last backward
/// (DeepSpeedEngine.allreduce_gradients).
Ddp read_stage0(Map& map) {
  constexpr double kAll = 1e9;  // MiB: one bucket holds all
  Ddp ddp{.bucket_cap_mb = kAll, .first_bucket_mb = kAll, .gradient_as_bucket_view = true};
  ddp.grad_reduce_in_fp32 = false;
  ddp.check_for_nan_in_grad = false;
  ddp.gradient_accumulation =
      count_or(map, "gradient_accumulation", ddp.gradient_accumulation, 1, kMostMicroBatches);
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

}  // namespace

Ddp read_replicas(Map& map, const std::string& section, const Reading& reading) {
  Framework& framework = reading.framework;
  if (framework.name() == "megatron") return read_buffered_options(map, section, framework);
  if (framework.name() == "deepspeed") return read_stage0(map);
  return reading.has_mesh() ? read_hooked_options(map, section, framework)
                            : read_ddp_options(map, section, framework);
}

Zero1 read_deepspeed(Map& map, std::int64_t stage, Framework& framework) {
  const std::string section = "strategy.zero.";
  Zero1::Deepspeed deepspeed{.partitions_gradients = stage == 2};
  deepspeed.reduce_bucket_size =
      framework.integer_or(map, section, "reduce_bucket_size", 0, kMostParameters);
  deepspeed.overlap_comm = map.bool_or("overlap_comm", false);
  if (!map.has("overlap_comm")) framework.note(section + "overlap_comm");
  deepspeed.contiguous_gradients = framework.bool_or(map, section, "contiguous_gradients");
  const std::string as_stored = "as_stored";
  deepspeed.communicates_fp32 =
      map.choice_or("communication_data_type", as_stored, {as_stored, "fp32"}) == "fp32";
  if (stage == 1 && !deepspeed.contiguous_gradients)
    map.at_key("contiguous_gradients")
        .fail("stage 1 is known with contiguous gradients alone", "remove it, or stage: 2");
  return {.ddp = read_stage0(map), .deepspeed = deepspeed};
}

}  // namespace rehearse::inline strategy
