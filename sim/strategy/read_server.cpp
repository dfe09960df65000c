#include <fmt/format.h>

#include <limits>

#include "strategy/outer/outer_step.hpp"
#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {
namespace {

const Choices<ParameterServer::Partition> kPartitions = {
    {"size", ParameterServer::Partition::size}, {"unit", ParameterServer::Partition::unit}};
const Choices<ParameterServer::Scheduling> kSchedulings = {
    {"fifo", ParameterServer::Scheduling::fifo},
    {"priority", ParameterServer::Scheduling::priority}};
const Choices<ParameterServer::Aggregate> kAggregates = {
    {"none", ParameterServer::Aggregate::none}, {"node", ParameterServer::Aggregate::node}};

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

/// The same of messages; "none": they take no time of CPUs, as infinitely fast ones.
std::optional<BytesPerSecond> read_message_rate(Map& map, const std::string& key) {
  const std::optional<Value> value = map.optional(key);
  if (value && value->is_scalar() && value->shown() == "none")
    return BytesPerSecond(std::numeric_limits<double>::infinity());
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

}  // namespace

ParameterServer read_parameter_server(Map& map) {
  ParameterServer ps;
  ps.servers = count_or(map, "servers", ps.servers, 1, 10'000);
  if (const std::optional<Value> host = map.optional("server_host"))
    ps.server_host = host->as_string();
  ps.staleness = read_staleness(map);
  ps.backup_workers = count_or(map, "backup_workers", ps.backup_workers, 0, kMostRanks);
  ps.apply_rate = read_rate(map, "apply_rate");
  ps.aggregate = read_choice(map, "aggregate", ps.aggregate, kAggregates);
  ps.worker_cpu_rate = read_message_rate(map, "worker_cpu_rate");
  ps.server_cpu_rate = read_message_rate(map, "server_cpu_rate");
  read_partition(map, ps);
  ps.layerwise = map.bool_or("layerwise", ps.layerwise);
  ps.scheduling = read_choice(map, "scheduling", ps.scheduling, kSchedulings);
  if (ps.scheduling == ParameterServer::Scheduling::priority && !ps.layerwise)
    map.at_key("scheduling")
        .fail("whole models travel at once: no part of one is more urgent", "add layerwise: true");
  ps.warmup_rounds = count_or(map, "warmup_rounds", ps.warmup_rounds, 0, 1'000'000);
  ps.local_steps = count_or(map, "local_steps", ps.local_steps, 1, kMostMicroBatches);
  read_outer_step(map, ps);
  ps.sampled_workers = count_or(map, "sampled_workers", ps.sampled_workers, 0, kMostRanks);
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

void check_server(Map& map, bool in_parts) {
  for (const char* key : {"micro_batches", "micro_batch_size"})
    if (map.has(key) && !in_parts)
      map.at_key(key).fail("workers of a server push each batch", "remove it");
  if (!in_parts) return;
  Map options = map.require("ps").as_map();
  for (const char* key : {"aggregate", "backup_workers", "sampled_workers"})
    if (options.has(key) && options.require(key).shown() != "none" &&
        options.require(key).shown() != "0")
      options.at_key(key).fail("workers are replicas over several ranks, each with its own part",
                               "remove it, or the degrees above 1");
}

void check_worker(const Map& map, const Layout& worker) {
  if (worker.mesh.context > 1)
    map.at_key("context_parallel")
        .fail("a server of workers that share sequences is not available yet",
              "tensor_parallel or pipeline_parallel, or ddp in the place of ps");
  if (worker.mesh.expert > 1)
    map.at_key("expert_parallel")
        .fail("a server of workers that share experts is not available yet",
              "tensor_parallel or pipeline_parallel, or ddp in the place of ps");
}

}  // namespace rehearse::inline strategy
