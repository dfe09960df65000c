#include <fmt/format.h>
#include <cctype>

#include "strategy/choices.hpp"
#include "strategy/named_options.hpp"
#include "strategy/outer/outer_step.hpp"
#include "strategy/read_layout.hpp"
#include "strategy/read_local_sgd.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {
namespace {

const Choices<Ddp::Compression> kHooks = {{"none", Ddp::Compression::none},
                                          {"fp16", Ddp::Compression::fp16},
                                          {"bf16", Ddp::Compression::bf16}};
const Choices<Fsdp::Prefetch> kPrefetches = {{"backward_pre", Fsdp::Prefetch::backward_pre},
                                             {"backward_post", Fsdp::Prefetch::backward_post},
                                             {"none", Fsdp::Prefetch::none}};
const Choices<ParameterServer::Partition> kPartitions = {
    {"size", ParameterServer::Partition::size}, {"unit", ParameterServer::Partition::unit}};
const Choices<ParameterServer::Scheduling> kSchedulings = {
    {"fifo", ParameterServer::Scheduling::fifo},
    {"priority", ParameterServer::Scheduling::priority}};
const Choices<ParameterServer::Aggregate> kAggregates = {
    {"none", ParameterServer::Aggregate::none}, {"node", ParameterServer::Aggregate::node}};
const Choices<Precision> kMixedTypes = {
    {"fp32", Precision::fp32}, {"bf16", Precision::bf16_pure}, {"fp16", Precision::fp16_pure}};

constexpr std::int64_t kMostMicroBatches = 10'000;
constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostParameters = 100'000'000'000'000;

/// The choice at `key`; `fallback` where it is missing.
template <class Enum>
Enum read_choice(Map& map, const std::string& key, Enum fallback, const Choices<Enum>& choices) {
  return value_of(choices, map.choice_or(key, name_of(choices, fallback), names_of(choices)));
}

int read_count(Map& map, const std::string& key, int fallback, std::int64_t low,
               std::int64_t high) {
  return static_cast<int>(map.integer_or(key, fallback, low, high));
}

/// Of the section `strategy.ddp.` or `strategy.zero.`.
Ddp read_ddp_options(Map& map, const std::string& section, Framework& framework) {
  Ddp ddp;
  ddp.bucket_cap_mb = framework.number_or(map, section, "bucket_cap_mb");
  ddp.first_bucket_mb = framework.number_or(map, section, "first_bucket_mb");
  ddp.gradient_as_bucket_view = framework.bool_or(map, section, "gradient_as_bucket_view");
  ddp.static_graph = map.bool_or("static_graph", ddp.static_graph);
  ddp.compression = read_choice(map, "compression", ddp.compression, kHooks);
  ddp.gradient_accumulation =
      read_count(map, "gradient_accumulation", ddp.gradient_accumulation, 1, kMostMicroBatches);
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

/// PyTorch's, beside ranks that share a model: buckets are reduced as they fill.
Ddp read_hooked_options(Map& map, const std::string& section, Framework& framework) {
  Ddp ddp = read_ddp_options(map, section, framework);
  if (ddp.compression != Ddp::Compression::none)
    map.at_key("compression")
        .fail("compression beside other axes is not available yet", "remove it");
  ddp.overlap_grad_reduce = true;
  ddp.grad_reduce_in_fp32 = false;
  ddp.check_for_nan_in_grad = false;
  return ddp;
}

/// Of Megatron-LM's DistributedDataParallelConfig.
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
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

/// DeepSpeed's stage 1: buckets of so many 16-bit elements, all-reduced beside backward or behind
/// it (stage_1_and_2.py: average_tensor with use_multi_rank_bucket_allreduce).
Ddp read_stage1(Map& map, Framework& framework) {
  constexpr double kBehindBackward = 1e9;  // MiB: one bucket holds all
  constexpr double kMiB = 1024.0 * 1024.0;
  const std::string section = "strategy.zero.";
  const std::int64_t elements =
      framework.integer_or(map, section, "reduce_bucket_size", 0, kMostParameters);
  const bool beside = map.bool_or("overlap_comm", false);
  if (!map.has("overlap_comm")) framework.note(section + "overlap_comm");
  const double cap = beside ? static_cast<double>(elements) * 2 / kMiB : kBehindBackward;
  Ddp ddp{.bucket_cap_mb = cap, .first_bucket_mb = cap, .gradient_as_bucket_view = true};
  ddp.overlap_grad_reduce = beside;
  ddp.grad_reduce_in_fp32 = false;
  ddp.check_for_nan_in_grad = false;
  ddp.gradient_accumulation =
      read_count(map, "gradient_accumulation", ddp.gradient_accumulation, 1, kMostMicroBatches);
  ddp.algorithm = read_choice(map, "algorithm", ddp.algorithm, kAlgorithms);
  return ddp;
}

Ddp read_replicas(Map& map, const std::string& section, const Reading& reading) {
  Framework& framework = reading.framework;
  if (framework.name() == "megatron") return read_buffered_options(map, section, framework);
  if (framework.name() == "deepspeed") return read_stage1(map, framework);
  return reading.has_mesh() ? read_hooked_options(map, section, framework)
                            : read_ddp_options(map, section, framework);
}

/// `wrap: unit | model | {min_num_params: N}`.
void read_wrap(Map& map, Fsdp& fsdp) {
  const std::optional<Value> wrap = map.has("wrap") ? map.optional("wrap") : std::nullopt;
  if (wrap && wrap->is_map()) {
    Map policy = wrap->as_map();
    fsdp.wrap = Fsdp::Wrap::size;
    fsdp.min_num_params =
        policy.integer_or("min_num_params", fsdp.min_num_params, 1, kMostParameters);
    policy.finish();
    return;
  }
  fsdp.wrap = read_choice(map, "wrap", fsdp.wrap,
                          {{"unit", Fsdp::Wrap::unit}, {"model", Fsdp::Wrap::model}});
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
Fsdp read_fsdp_options(Map& map, Fsdp::Sharding sharding) {
  Fsdp fsdp;
  fsdp.sharding = sharding;
  fsdp.backward_prefetch =
      read_choice(map, "backward_prefetch", fsdp.backward_prefetch, kPrefetches);
  fsdp.forward_prefetch = map.bool_or("forward_prefetch", fsdp.forward_prefetch);
  fsdp.limit_all_gathers = map.bool_or("limit_all_gathers", fsdp.limit_all_gathers);
  read_wrap(map, fsdp);
  read_shard_group(map, fsdp);
  fsdp.param_dtype = read_mixed_type(map, "param_dtype");
  fsdp.reduce_dtype = read_mixed_type(map, "reduce_dtype");
  fsdp.buffer_dtype = read_mixed_type(map, "buffer_dtype");
  fsdp.cpu_offload = map.bool_or("cpu_offload", fsdp.cpu_offload);
  fsdp.gradient_accumulation =
      read_count(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  if (const auto no_sync = map.optional("no_sync")) fsdp.no_sync = no_sync->as_bool();
  read_algorithm(map, fsdp);
  if (const auto overhead = map.optional("host_overhead"))
    fsdp.host_overhead = overhead->as_seconds();
  return fsdp;
}

Fsdp read_fsdp(Map& map, Framework& framework) {
  const Fsdp::Sharding sharding =
      read_choice(map, "sharding", Fsdp::Sharding::full_shard, kShardings);
  for (const char* key :
       {"backward_prefetch", "forward_prefetch", "limit_all_gathers", "host_overhead"})
    if (!map.has(key)) framework.note(std::string("strategy.fsdp.") + key);
  Fsdp fsdp = read_fsdp_options(map, sharding);
  fsdp.flat_gradients = !map.bool_or("adapters_apart", true);
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
      read_count(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  read_algorithm(map, fsdp);
  fsdp.host_overhead = read_host_overhead(map, "strategy.fsdp2.", framework);
  return fsdp;
}

/// ZeRO-3 by DeepSpeed's names.
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
      read_count(map, "gradient_accumulation", fsdp.gradient_accumulation, 1, kMostMicroBatches);
  read_algorithm(map, fsdp);
  return fsdp;
}

Strategy read_zero(Map& map, const Reading& reading) {
  if (!map.has("stage") && nearest("stage", map.keys()).empty())
    map.where().mistake("the key \"stage\" is missing",
                        "write zero: {stage: 1}; 2 shards gradients as well, 3 also parameters");
  const std::int64_t stage = map.require("stage").as_integer(1, 3);
  if (stage == 1) return Zero1{.ddp = read_replicas(map, "strategy.zero.", reading)};
  if (map.has("sharding")) {
    map.at_key("sharding")
        .fail("a ZeRO stage decides the sharding itself",
              "remove it, or write fsdp instead of zero");
  }
  if (stage == 3) return read_stage3(map, reading.framework);
  Fsdp fsdp = read_fsdp_options(map, Fsdp::Sharding::shard_grad_op);
  fsdp.flat_gradients = false;
  return fsdp;
}

/// `staleness: N | unbounded`; nothing for unbounded.
std::optional<std::uint32_t> read_staleness(Map& map) {
  constexpr std::int64_t kMostStale = 1'000'000;
  const std::optional<Value> value =
      map.has("staleness") ? map.optional("staleness") : std::nullopt;
  if (!value) return static_cast<std::uint32_t>(map.integer_or("staleness", 0, 0, kMostStale));
  const std::string shown = value->shown();
  if (value->is_scalar() && shown == "unbounded") return std::nullopt;
  if (value->is_scalar() && shown.find_first_of("0123456789") == std::string::npos) {
    value->fail(fmt::format("expected a whole number or unbounded; got \"{}\"", shown));
  }
  return static_cast<std::uint32_t>(value->as_integer(0, kMostStale));
}

std::optional<BytesPerSecond> read_rate(Map& map, const std::string& key) {
  const std::optional<Value> value = map.optional(key);
  return value ? std::optional(value->as_bytes_per_second()) : std::nullopt;
}

/// A node's GPUs train in step.
void check_aggregate(Map& map, const ParameterServer& ps) {
  if (ps.aggregate == ParameterServer::Aggregate::none) return;
  if (ps.local_steps > 1) {
    map.at_key("aggregate")
        .fail("GPUs that take local steps have no common gradients to sum",
              ps.outer ? "remove it" : "set local_steps: 1, or remove aggregate");
  }
  if (ps.sampled_workers > 0) {
    map.at_key("aggregate")
        .fail("sampled_workers draws single GPUs, which cannot be summed by nodes",
              "remove one of the two");
  }
}

/// `size | unit`, or the bytes of a slice.
void read_partition(Map& map, ParameterServer& ps) {
  const std::string key = "partition";
  const bool is_name = !map.has(key) || !map.require(key).is_scalar() ||
                       map.require(key).shown().find_first_of("0123456789") != 0;
  if (is_name) {
    ps.partition = read_choice(map, key, ps.partition, kPartitions);
    return;
  }
  const Value value = map.require(key);
  constexpr Bytes kLeast(1024);
  ps.slice = value.as_bytes();
  if (*ps.slice < kLeast) value.fail("a slice has at least 1 KiB", "partition: 4MiB");
}

/// A server that is sent gradients takes the optimizer's own steps.
void read_outer_step(Map& map, ParameterServer& ps) {
  ps.outer = read_outer_optimizer(map);
  ps.compression = read_outer_compression(
      map, ps.outer,
      ps.local_steps > 1 ? kSetOuter : "set local_steps: 50 and outer_optimizer: {sgd: {}}");
  if (!ps.outer || ps.local_steps > 1) return;
  const bool may_be_local = ps.aggregate == ParameterServer::Aggregate::none;
  map.at_key("outer_optimizer")
      .fail("without local steps a worker pushes gradients, which the optimizer itself is for",
            may_be_local ? "set local_steps: 50, or remove it" : "remove it");
}

ParameterServer read_parameter_server(Map& map) {
  ParameterServer ps;
  ps.servers = read_count(map, "servers", ps.servers, 1, 10'000);
  if (const std::optional<Value> host = map.optional("server_host"))
    ps.server_host = host->as_string();
  ps.staleness = read_staleness(map);
  ps.backup_workers = read_count(map, "backup_workers", ps.backup_workers, 0, kMostRanks);
  ps.apply_rate = read_rate(map, "apply_rate");
  ps.aggregate = read_choice(map, "aggregate", ps.aggregate, kAggregates);
  ps.worker_cpu_rate = read_rate(map, "worker_cpu_rate");
  ps.server_cpu_rate = read_rate(map, "server_cpu_rate");
  ps.connection_rate = read_rate(map, "connection_rate");
  read_partition(map, ps);
  ps.layerwise = map.bool_or("layerwise", ps.layerwise);
  ps.scheduling = read_choice(map, "scheduling", ps.scheduling, kSchedulings);
  if (ps.scheduling == ParameterServer::Scheduling::priority && !ps.layerwise)
    map.at_key("scheduling")
        .fail("whole models travel at once: no part of one is more urgent", "add layerwise: true");
  ps.warmup_rounds = read_count(map, "warmup_rounds", ps.warmup_rounds, 0, 1'000'000);
  ps.local_steps = read_count(map, "local_steps", ps.local_steps, 1, kMostMicroBatches);
  read_outer_step(map, ps);
  ps.sampled_workers = read_count(map, "sampled_workers", ps.sampled_workers, 0, kMostRanks);
  check_aggregate(map, ps);
  if (ps.sampled_workers > 0 && (ps.staleness != 0u || ps.backup_workers > 0)) {
    map.at_key("sampled_workers")
        .fail("a sample of workers needs synchronous rounds in which each of them counts",
              "set staleness: 0 without backup_workers, or remove sampled_workers");
  }
  if (ps.warmup_rounds > 0 && ps.staleness == 0u) {
    map.at_key("warmup_rounds")
        .fail("all rounds are synchronous already",
              "set staleness to a bound or unbounded, or remove warmup_rounds");
  }
  if (ps.backup_workers > 0 && ps.staleness != 0u) {
    map.at_key("backup_workers")
        .fail("backup workers need synchronous updates",
              "set staleness: 0, or remove backup_workers");
  }
  return ps;
}

/// `zero: 3` and the like, as others write them: what to write instead.
void check_scalar(const Value& value) {
  if (!value.is_map()) return;
  Map map = value.as_map();
  for (const std::string& name : strategy_names()) {
    if (!map.has(name)) continue;
    const Value options = map.require(name);
    if (!options.is_scalar()) continue;
    const std::string shown = options.shown();
    const bool counts = shown.find_first_not_of("0123456789") == std::string::npos;
    const std::string sharding = nearest(shown, names_of(kShardings));
    const std::string meant = name == "zero"        ? "stage: " + (counts ? shown : "1")
                              : name == "local_sgd" ? "period: " + (counts ? shown : "8")
                              : name == "fsdp" && !sharding.empty() ? "sharding: " + sharding
                                                                    : "";
    options.fail(fmt::format("expected a map; got \"{}\"", shown),
                 fmt::format("write {}: {{{}}}", name, meant));
  }
}

Strategy read_kind(const std::string& name, Map& map, const Reading& reading) {
  if (name == "ddp") return read_replicas(map, "strategy.ddp.", reading);
  if (name == "fsdp") return read_fsdp(map, reading.framework);
  if (name == "fsdp2") return read_fsdp2(map, reading.framework);
  if (name == "zero") return read_zero(map, reading);
  return read_parameter_server(map);
}

/// The kind of data parallelism of a layout's map; where none is said, ddp.
Strategy read_data_kind(Map& map, const Reading& reading) {
  std::string kind = "ddp";
  for (const std::string& name : strategy_names())
    if (name != "local_sgd" && map.has(name)) kind = name;
  const auto none = Document::parse("{ddp: {}}", "strategy");
  Map usual = none->root().as_map();
  Map options = (map.has(kind) ? map.require(kind) : usual.require(kind)).as_map();
  const Strategy strategy = read_kind(kind, options, reading);
  options.finish();
  return strategy;
}

}  // namespace

Strategy read_strategy(const Value& value, Framework& framework) {
  check_scalar(value);
  const Reading reading{framework, in_parts(value), is_local_sgd_alone(value)};
  const auto read_data = [&](Map& map) { return read_data_kind(map, reading); };
  const auto read_mesh = [&](const Map& map) { return read_layout(map, reading, read_data); };
  if (value.is_map() && value.as_map().has("local_sgd"))
    return read_local_sgd(
        value,
        [&](const std::string& name, Map& options) { return read_kind(name, options, reading); },
        read_mesh, reading);
  if (is_layout(value) || (value.is_map() && reading.has_mesh())) return read_mesh(value.as_map());
  NamedOptions named = read_named_options(value, strategy_names(), "a strategy");
  const Strategy strategy = read_kind(named.name, named.options, reading);
  named.options.finish();
  return strategy;
}

}  // namespace rehearse::inline strategy
