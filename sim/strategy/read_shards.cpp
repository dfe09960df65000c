// How parameters are sharded: PyTorch's FSDP, FSDP2, and DeepSpeed's ZeRO-3.
#include <cctype>

#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {
namespace {

const Choices<Fsdp::Prefetch> kPrefetches = {{"backward_pre", Fsdp::Prefetch::backward_pre},
                                             {"backward_post", Fsdp::Prefetch::backward_post},
                                             {"none", Fsdp::Prefetch::none}};
const Choices<Precision> kMixedTypes = {
    {"fp32", Precision::fp32}, {"bf16", Precision::bf16_pure}, {"fp16", Precision::fp16_pure}};

/// `wrap: unit | blocks | model | {min_num_params: N}`.
void read_wrap(Map& map, Framework& framework, Fsdp& fsdp) {
  const std::optional<Value> wrap = map.has("wrap") ? map.optional("wrap") : std::nullopt;
  if (wrap && wrap->is_map()) {
    Map policy = wrap->as_map();
    fsdp.wrap = Fsdp::Wrap::size;
    fsdp.min_num_params =
        policy.integer_or("min_num_params", fsdp.min_num_params, 1, kMostParameters);
    policy.finish();
    return;
  }
  const Choices<Fsdp::Wrap> wraps = {
      {"unit", Fsdp::Wrap::unit}, {"blocks", Fsdp::Wrap::blocks}, {"model", Fsdp::Wrap::model}};
  fsdp.wrap = value_of(wraps, framework.choice_or(map, "strategy.fsdp.", "wrap", names_of(wraps)));
}

std::optional<Precision> read_mixed_type(Map& map, const std::string& key) {
  const std::optional<Value> value = map.optional(key);
  if (!value) return std::nullopt;
  return value_of(kMixedTypes, value->as_choice(names_of(kMixedTypes)));
}

/// The same, of a framework that has a type of its own.
std::optional<Precision> read_mixed_type(Map& map, const std::string& key, Framework& framework) {
  const std::string own = "strategy.fsdp2." + key;
  const std::optional<std::string> usual = framework.find(own);
  if (map.has(key) || !usual) return read_mixed_type(map, key);
  framework.note(own);
  map.choice_or(key, *usual, names_of(kMixedTypes));
  return value_of(kMixedTypes, *usual);
}

Seconds read_host_overhead(Map& map, const std::string& section, Framework& framework) {
  if (const auto overhead = map.optional("host_overhead")) return overhead->as_seconds();
  framework.note(section + "host_overhead");
  return Seconds(0);
}

void read_shard_group(Map& map, Fsdp& fsdp) {
  const std::optional<Value> value = map.optional("shard_group");
  if (!value) return;
  if (fsdp.sharding != Fsdp::Sharding::hybrid_shard) {
    map.at_key("shard_group")
        .fail("only hybrid_shard shards inside a group",
              "remove it, or set sharding: hybrid_shard");
  }
  fsdp.shard_group = static_cast<int>(value->as_integer(1, kMostRanks));
}

/// Shards are gathered and scattered along rings: NCCL's trees carry all_reduce alone, which a
/// hybrid sharding has between its groups.
void read_algorithm(Map& map, Fsdp& fsdp) {
  fsdp.algorithm = read_choice(map, "algorithm", fsdp.algorithm, kAlgorithms);
  const bool reduces = fsdp.sharding == Fsdp::Sharding::hybrid_shard;
  if (fsdp.algorithm == CollectiveAlgorithm::tree && !reduces)
    map.require("algorithm")
        .fail("NCCL's trees carry all_reduce alone; shards go by all_gather and reduce_scatter",
              "algorithm: ring");
}

/// The options of FSDP apart from `sharding`, which ZeRO's stage decides too.
Fsdp read_fsdp_options(Map& map, Framework& framework, Fsdp::Sharding sharding) {
  Fsdp fsdp;
  fsdp.sharding = sharding;
  fsdp.backward_prefetch =
      read_choice(map, "backward_prefetch", fsdp.backward_prefetch, kPrefetches);
  fsdp.forward_prefetch = map.bool_or("forward_prefetch", fsdp.forward_prefetch);
  fsdp.limit_all_gathers = map.bool_or("limit_all_gathers", fsdp.limit_all_gathers);
  read_wrap(map, framework, fsdp);
  read_shard_group(map, fsdp);
  fsdp.param_dtype = read_mixed_type(map, "param_dtype");
  fsdp.reduce_dtype = read_mixed_type(map, "reduce_dtype");
  fsdp.buffer_dtype = read_mixed_type(map, "buffer_dtype");
  fsdp.cpu_offload = map.bool_or("cpu_offload", fsdp.cpu_offload);
  fsdp.gradient_accumulation =
      count_or(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  if (const auto no_sync = map.optional("no_sync")) fsdp.no_sync = no_sync->as_bool();
  read_algorithm(map, fsdp);
  if (const auto overhead = map.optional("host_overhead"))
    fsdp.host_overhead = overhead->as_seconds();
  return fsdp;
}

}  // namespace

Fsdp read_fsdp(Map& map, Framework& framework) {
  const Fsdp::Sharding sharding =
      read_choice(map, "sharding", Fsdp::Sharding::full_shard, kShardings);
  for (const char* key :
       {"backward_prefetch", "forward_prefetch", "limit_all_gathers", "host_overhead"})
    if (!map.has(key)) framework.note(std::string("strategy.fsdp.") + key);
  Fsdp fsdp = read_fsdp_options(map, framework, sharding);
  fsdp.flat_gradients = !map.bool_or("adapters_apart", true);
  fsdp.reentrant_checkpoints =
      map.bool_or("reentrant_checkpoints", framework.flag("strategy.fsdp.reentrant_checkpoints"));
  return fsdp;
}

/// torch.distributed.fsdp.fully_shard. Its streams wait for what was copied out, which limits it to
/// two gathered units as limit_all_gathers does.
Fsdp read_fsdp2(Map& map, Framework& framework) {
  Fsdp fsdp{.per_parameter = true};
  const std::optional<Value> after = map.optional("reshard_after_forward");
  const std::string text = after ? after->shown() : "";
  const bool counted = !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
  if (counted) fsdp.post_forward_group = static_cast<int>(after->as_integer(2, kMostRanks));
  const bool reshards =
      counted || framework.bool_or(map, "strategy.fsdp2.", "reshard_after_forward");
  const std::optional<Value> group = map.optional("shard_group");
  fsdp.sharding = group      ? Fsdp::Sharding::hybrid_shard
                  : reshards ? Fsdp::Sharding::full_shard
                             : Fsdp::Sharding::shard_grad_op;
  const bool blocks =
      framework.choice_or(map, "strategy.fsdp2.", "wrap", {"unit", "blocks"}) == "blocks";
  fsdp.wrap = blocks ? Fsdp::Wrap::blocks : Fsdp::Wrap::unit;
  if (group) {
    fsdp.shard_group = static_cast<int>(group->as_integer(1, kMostRanks));
    if (!reshards || counted)
      map.at_key("reshard_after_forward")
          .fail("beside shard_group it is true", "remove one of the two");
  }
  fsdp.param_dtype = read_mixed_type(map, "param_dtype", framework);
  fsdp.reduce_dtype = read_mixed_type(map, "reduce_dtype", framework);
  fsdp.cpu_offload = map.bool_or("cpu_offload", false);
  fsdp.gradient_accumulation =
      count_or(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  read_algorithm(map, fsdp);
  fsdp.host_overhead = read_host_overhead(map, "strategy.fsdp2.", framework);
  return fsdp;
}

Fsdp read_stage3(Map& map, Framework& framework) {
  Fsdp::Stage3 stage3;
  const std::string section = "strategy.zero.";
  const auto elements = [&](const char* key, std::int64_t& value) {
    value = framework.integer_or(map, section, key, 0, kMostParameters);
  };
  elements("stage3_prefetch_bucket_size", stage3.prefetch_bucket_size);
  elements("stage3_max_live_parameters", stage3.max_live_parameters);
  elements("stage3_max_reuse_distance", stage3.max_reuse_distance);
  elements("stage3_param_persistence_threshold", stage3.param_persistence_threshold);
  elements("reduce_bucket_size", stage3.reduce_bucket_size);
  stage3.overlap_comm = map.bool_or("overlap_comm", true);
  if (!map.has("overlap_comm")) framework.note(section + "overlap_comm");
  if (const auto hook = map.optional("module_hook"))
    stage3.module_hook = hook->as_seconds();
  else
    framework.note(section + "module_hook");
  Fsdp fsdp{.flat_gradients = false, .stage3 = stage3};
  fsdp.param_dtype = read_mixed_type(map, "param_dtype");
  fsdp.reduce_dtype = read_mixed_type(map, "reduce_dtype");
  fsdp.buffer_dtype = read_mixed_type(map, "buffer_dtype");
  fsdp.cpu_offload = map.bool_or("cpu_offload", false);
  fsdp.gradient_accumulation =
      count_or(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  read_algorithm(map, fsdp);
  return fsdp;
}

}  // namespace rehearse::inline strategy
