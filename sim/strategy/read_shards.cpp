// How parameters are sharded: PyTorch's FSDP, FSDP2, and DeepSpeed's ZeRO-3.
#include <cctype>

#include "config/key_list.hpp"
#include "strategy/read_kinds.hpp"
#include "strategy/strategy_keys.hpp"
#include "strategy/zero_keys.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr Choices<TorchFsdp1::Prefetch> kPrefetches = {
    {"backward_pre", TorchFsdp1::Prefetch::backward_pre},
    {"backward_post", TorchFsdp1::Prefetch::backward_post},
    {"none", TorchFsdp1::Prefetch::none}};
constexpr Choices<Precision> kMixedTypes = {
    {"fp32", Precision::fp32}, {"bf16", Precision::bf16_pure}, {"fp16", Precision::fp16_pure}};

/// `wrap: unit | blocks | model | {min_num_params: N}`.
void read_wrap(Map& map, Framework& framework, TorchFsdp1& fsdp) {
  const std::optional<Value> wrap = map.has("wrap") ? map.optional("wrap") : std::nullopt;
  if (wrap && wrap->is_map()) {
    Map policy = wrap->as_map();
    fsdp.wrap = TorchFsdp1::Wrap::size;
    fsdp.min_num_params =
        policy.integer_or("min_num_params", fsdp.min_num_params, 1, kMostParameters);
    policy.finish();
    return;
  }
  static constexpr Choices<TorchFsdp1::Wrap> wraps = {{"unit", TorchFsdp1::Wrap::unit},
                                                      {"blocks", TorchFsdp1::Wrap::blocks},
                                                      {"model", TorchFsdp1::Wrap::model}};
  fsdp.wrap = value_of(wraps, framework.choice_or(map, "strategy.fsdp.", "wrap", names_of(wraps)));
}

/// FSDP's own types, which a stage of ZeRO has, too.
struct MixedTypes {
  KeyOf<Precision> param_dtype{"param_dtype", form::choice(kMixedTypes)};
  KeyOf<Precision> reduce_dtype{"reduce_dtype", form::choice(kMixedTypes)};
  KeyOf<Precision> buffer_dtype{"buffer_dtype", form::choice(kMixedTypes)};
};

/// `reshard_after_forward: true | false | N`: of how many ranks a group shares it; 1: of all.
struct AfterForward {
  bool frees = true;
  int group = 0;
};
AfterForward read_after_forward(const Value& value) {
  const std::string text = value.shown();
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0)
    return {.frees = value.as_bool()};
  return {.group = static_cast<int>(value.as_integer(2, kMostRanks))};
}

struct Fsdp2Keys : KeyList {
  KeyOf<AfterForward> reshard_after_forward = add(
      "reshard_after_forward",
      Form<AfterForward>{
          type::flag() | type::integer(2), read_after_forward,
          [](const AfterForward& after) { return std::string(after.frees ? "true" : "false"); }},
      "true", "Parameters are freed after forward, and gathered once more; the root's are kept.");
  KeyOf<int> shard_group = add("shard_group", form::count(1, kMostRanks).in("ranks"), "-",
                               "Ranks that share one copy, replicated over all others (HSDP).");
  KeyOf<TorchFsdp2::Wrap> wrap =
      add("wrap", form::choice(kWraps), "(the framework's: blocks of torch)",
          "What one call has: each unit; or each block, and the root "
          "all else.");
  KeyOf<Precision> param_dtype =
      add("param_dtype", form::choice(kMixedTypes), "(model.precision; bf16 of torchtitan)",
          "mp_policy: what units compute in.");
  KeyOf<Precision> reduce_dtype =
      add("reduce_dtype", form::choice(kMixedTypes), "(param_dtype; fp32 of torchtitan)",
          "mp_policy: gradients on the wire.");
  KeyOf<bool> cpu_offload =
      add<bool>("cpu_offload", "false", "Shards and optimizer in host memory.");
  KeyOf<int> gradient_accumulation = add("gradient_accumulation", form::count(1, kMostMicroBatches),
                                         "1", "Micro-batches of a step.");
  KeyOf<CollectiveAlgorithm> algorithm = add("algorithm", form::choice(kAlgorithms), "automatic",
                                             "Algorithm of the collectives.", "NCCL");
  KeyOf<Seconds> host_overhead = add<Seconds>("host_overhead", "(50 operators of the host)",
                                              "Host time of its hooks per unit and pass.");

 private:
  static constexpr Choices<TorchFsdp2::Wrap> kWraps = {{"unit", TorchFsdp2::Wrap::unit},
                                                       {"blocks", TorchFsdp2::Wrap::blocks}};
};

const Fsdp2Keys& of_fsdp2() {
  static const Fsdp2Keys kKeys;
  return kKeys;
}

/// It returns what the map says, or the framework where it has a type of its own.
std::optional<Precision> read_mixed_type(Map& map, const KeyOf<Precision>& entry,
                                         Framework& framework) {
  const std::string section = "strategy.fsdp2.";
  return framework.find(section + entry.name) ? framework.value_or(map, section, entry)
                                              : entry.in(map);
}

/// Shards are gathered and scattered along rings: NCCL's trees carry all_reduce alone, which a
/// hybrid sharding has between its groups.
void check_algorithm(Map& map, CollectiveAlgorithm algorithm, bool reduces) {
  if (algorithm == CollectiveAlgorithm::tree && !reduces)
    map.require("algorithm")
        .fail("NCCL's trees carry all_reduce alone; shards go by all_gather and reduce_scatter",
              "algorithm: ring");
}

/// What all that shard have in common.
template <class Sharded>
void read_sharded(Map& map, Sharded& sharded) {
  sharded.cpu_offload = of_fsdp2().cpu_offload.in(map, false);
  sharded.gradient_accumulation =
      of_fsdp2().gradient_accumulation.in(map, sharded.gradient_accumulation);
  sharded.algorithm = of_fsdp2().algorithm.in(map, sharded.algorithm);
}

Fields<TorchFsdp1> fsdp_fields(Framework* framework) {
  using F = TorchFsdp1;
  const Form<Precision> type = form::choice(kMixedTypes);
  return {
      field("sharding", &F::sharding, form::choice(kShardings),
            "What is sharded: ZeRO-3, ZeRO-2, or ZeRO-3 in groups."),
      field("backward_prefetch", &F::backward_prefetch, form::choice(kPrefetches),
            "When backward gathers the next unit."),
      field("forward_prefetch", &F::forward_prefetch, "Forward issues the next gather early."),
      field("limit_all_gathers", &F::limit_all_gathers, "At most two units are gathered at once."),
      {{{"wrap", type::choice({"unit", "blocks", "model"}) | type::map(),
         "(the framework's: blocks of torch)",
         "One FlatParameter has so much; under `blocks` the root has the rest, which stays "
         "gathered."},
        {"wrap.min_num_params", type::integer(1), "100000000",
         "Units are joined until they have so many parameters."}},
       [framework](Map& map, F& fsdp) { read_wrap(map, *framework, fsdp); }},
      silent("shard_group", &F::shard_group, form::integer(1, kMostRanks).in("ranks"),
             "Ranks that share one copy under hybrid_shard.")
          .otherwise("(the ranks of a node)"),
      field("param_dtype", &F::param_dtype, type, "MixedPrecision: what units compute in.")
          .otherwise("(model.precision)"),
      field("reduce_dtype", &F::reduce_dtype, type, "MixedPrecision: gradients on the wire.")
          .otherwise("(param_dtype)"),
      field("buffer_dtype", &F::buffer_dtype, type, "MixedPrecision: buffers.").otherwise("(fp32)"),
      field("cpu_offload", &F::cpu_offload, "Shards and optimizer in host memory."),
      field("gradient_accumulation", &F::gradient_accumulation, form::integer(1, kMostMicroBatches),
            "Micro-batches of a step."),
      silent("no_sync", &F::no_sync,
             "All micro-batches but the last keep whole gradients and reduce nothing.")
          .otherwise("false"),
      field("algorithm", &F::algorithm, form::choice(kAlgorithms), "Algorithm of the collectives.",
            "NCCL"),
      silent("host_overhead", &F::host_overhead, "Host time of FSDP's hooks per unit and pass.",
             "measured")
          .otherwise("(36 operators of the host)"),
      {{{"adapters_apart", type::flag(), "true",
         "Adapters are wrapped beside what is frozen, whose gradients are never made; else one "
         "flat tensor holds both.",
         "PEFT, fsdp_qlora; litgpt has false"}},
       [](Map& map, F& fsdp) { fsdp.flat_gradients = !map.bool_or("adapters_apart", true); }},
      {{{"reentrant_checkpoints", type::flag(), "true",
         "Beside frozen weights: inputs of checkpointed units, and their gradients, stay until "
         "backward's end.",
         "torch.utils.checkpoint's use_reentrant; transformers before 5"}},
       [framework](Map& map, F& fsdp) {
         fsdp.reentrant_checkpoints = map.bool_or(
             "reentrant_checkpoints", framework->flag("strategy.fsdp.reentrant_checkpoints"));
       }}};
}

void check_fsdp(Map& map, const TorchFsdp1& fsdp) {
  if (map.has("shard_group") && fsdp.sharding != TorchFsdp1::Sharding::hybrid_shard) {
    map.at_key("shard_group")
        .fail("only hybrid_shard shards inside a group",
              "remove it, or set sharding: hybrid_shard");
  }
  check_algorithm(map, fsdp.algorithm, fsdp.sharding == TorchFsdp1::Sharding::hybrid_shard);
}

}  // namespace

std::string mixed_type_name(Precision type) { return name_of(kMixedTypes, type); }

std::vector<Key> fsdp_keys() { return keys_of(fsdp_fields(nullptr)); }

TorchFsdp1 read_fsdp(Map& map, Framework& framework) {
  for (const char* key :
       {"backward_prefetch", "forward_prefetch", "limit_all_gathers", "host_overhead"})
    if (!map.has(key)) framework.note(std::string("strategy.fsdp.") + key);
  const TorchFsdp1 fsdp = read_fields(map, fsdp_fields(&framework));
  check_fsdp(map, fsdp);
  return fsdp;
}

std::vector<Key> fsdp2_keys() { return of_fsdp2().lines(); }

TorchFsdp2 read_fsdp2(Map& map, Framework& framework) {
  const std::string section = "strategy.fsdp2.";
  TorchFsdp2 fsdp;
  const AfterForward after = framework.value_or(map, section, of_fsdp2().reshard_after_forward);
  fsdp.reshard_after_forward = after.frees;
  fsdp.post_forward_group = after.group;
  fsdp.wrap = framework.value_or(map, section, of_fsdp2().wrap);
  fsdp.shard_group = of_fsdp2().shard_group.in(map).value_or(0);
  if (map.has("shard_group") && (!after.frees || after.group > 0))
    map.at_key("reshard_after_forward")
        .fail("beside shard_group it is true", "remove one of the two");
  fsdp.param_dtype = read_mixed_type(map, of_fsdp2().param_dtype, framework);
  fsdp.reduce_dtype = read_mixed_type(map, of_fsdp2().reduce_dtype, framework);
  read_sharded(map, fsdp);
  check_algorithm(map, fsdp.algorithm, fsdp.shard_group > 0);
  if (!map.has("host_overhead")) framework.note(section + "host_overhead");
  fsdp.host_overhead = of_fsdp2().host_overhead.in(map);
  return fsdp;
}

namespace {

Fields<MegatronFsdp> megatron_fields(Framework* framework) {
  using F = MegatronFsdp;
  return {
      {{{"data_parallel_sharding_strategy", type::choice({"optim_grads", "optim_grads_params"}),
         "optim_grads_params",
         "What is sharded: ZeRO-2, or ZeRO-3 layer by layer; `optim` is zero: {stage: 1}."}},
       [framework](Map& map, F& fsdp) {
         if (const auto said = map.optional("data_parallel_sharding_strategy");
             said && said->shown() == "optim")
           said->fail("it shards states of the optimizer alone", "write zero: {stage: 1}");
         fsdp.sharding =
             value_of(kMegatronShardings, framework->choice_or(map, "strategy.megatron_fsdp.",
                                                               "data_parallel_sharding_strategy",
                                                               names_of(kMegatronShardings)));
       }},
      silent("grad_reduce_in_fp32", &F::grad_reduce_in_fp32, "Gradients add up and travel in fp32.")
          .otherwise("true"),
      field("algorithm", &F::algorithm, form::choice(kAlgorithms), "Algorithm of the collectives.",
            "NCCL"),
      silent("host_overhead", &F::host_overhead, "Host time of its hooks per layer and pass.")
          .otherwise("(36 operators of the host)")};
}

}  // namespace

std::vector<Key> megatron_fsdp_keys() { return keys_of(megatron_fields(nullptr)); }

MegatronFsdp read_megatron_fsdp(Map& map, Framework& framework) {
  for (const char* key : {"grad_reduce_in_fp32", "host_overhead"})
    if (!map.has(key)) framework.note(std::string("strategy.megatron_fsdp.") + key);
  const MegatronFsdp fsdp = read_fields(map, megatron_fields(&framework));
  check_algorithm(map, fsdp.algorithm, false);
  return fsdp;
}

DeepspeedZero3 read_stage3(Map& map, Framework& framework) {
  const std::string section = "strategy.zero.";
  const ZeroKeys& zero = of_zero();
  const MixedTypes types;
  const auto size = [&](const KeyOf<std::int64_t>& entry) {
    return framework.value_or(map, section, entry);
  };
  DeepspeedZero3 stage3;
  stage3.prefetch_bucket_size = size(zero.stage3_prefetch_bucket_size);
  stage3.max_live_parameters = size(zero.stage3_max_live_parameters);
  stage3.max_reuse_distance = size(zero.stage3_max_reuse_distance);
  stage3.param_persistence_threshold = size(zero.stage3_param_persistence_threshold);
  stage3.reduce_bucket_size = size(zero.reduce_bucket_size);
  stage3.sub_group_size = zero.sub_group_size.in(map).value_or(stage3.sub_group_size);
  stage3.overlap_comm = zero.read_overlap_comm(map, true, framework);
  if (!map.has("module_hook")) framework.note(section + "module_hook");
  stage3.module_hook = zero.module_hook.in(map);
  stage3.param_dtype = types.param_dtype.in(map);
  stage3.reduce_dtype = types.reduce_dtype.in(map);
  stage3.buffer_dtype = types.buffer_dtype.in(map);
  read_sharded(map, stage3);
  check_algorithm(map, stage3.algorithm, false);
  return stage3;
}

}  // namespace rehearse::inline strategy
