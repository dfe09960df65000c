#include <fmt/format.h>

#include <limits>

#include "strategy/outer/outer_step.hpp"
#include "strategy/read_kinds.hpp"
#include "strategy/server/server_host.hpp"
#include "strategy/strategy_keys.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr Choices<ParameterServer::Partition> kPartitions = {
    {"size", ParameterServer::Partition::size}, {"unit", ParameterServer::Partition::unit}};
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

/// The rate of messages; "none": they take no time of CPUs, as infinitely fast ones.
BytesPerSecond read_message_rate(const Value& value) {
  if (value.is_scalar() && value.shown() == "none")
    return BytesPerSecond(std::numeric_limits<double>::infinity());
  return value.as_bytes_per_second();
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

constexpr Choices<ParameterServer::Protocol> kProtocols = {
    {"own_request", ParameterServer::Protocol::own_request},
    {"behind_push", ParameterServer::Protocol::behind_push}};

/// A synchronous server answers pulls when all gradients are in, whatever their order.
void read_protocol(Map& map, Framework& framework, ParameterServer& ps) {
  const std::string key = "protocol";
  if (ps.staleness == 0U && !map.has(key)) return;
  ps.protocol =
      value_of(kProtocols, framework.choice_or(map, "strategy.ps.", key, names_of(kProtocols)));
  if (ps.staleness == 0U)
    map.at_key(key).fail("a synchronous server answers all pulls at once, when a round is over",
                         "set staleness to a bound or unbounded, or remove protocol");
}

/// A choice, or a flag, of which some frameworks have a default of their own.
template <class Enum>
void read_choice_of(Map& map, Framework& framework, const char* key, Enum& member,
                    Choices<Enum> choices) {
  const std::string section = "strategy.ps.";
  member = framework.find(section + key)
               ? value_of(choices, framework.choice_or(map, section, key, names_of(choices)))
               : read_choice(map, key, member, choices);
}

constexpr Choices<ParameterServer::Aggregate> kAggregates = {
    {"none", ParameterServer::Aggregate::none}, {"node", ParameterServer::Aggregate::node}};
constexpr Choices<ParameterServer::Scheduling> kSchedulings = {
    {"fifo", ParameterServer::Scheduling::fifo},
    {"priority", ParameterServer::Scheduling::priority}};

/// Slices as the framework cuts them where nobody says.
void read_usual_partition(Map& map, Framework& framework, ParameterServer& ps) {
  const std::string key = "strategy.ps.partition";
  if (map.has("partition") || !framework.find(key)) return read_partition(map, ps);
  framework.note(key);
  ps.slice = parse_bytes(framework.word(key));
}

Fields<ParameterServer> server_fields(Framework* framework) {
  using P = ParameterServer;
  static const Form<BytesPerSecond> kMessages{type::data_rate().or_word("none"), read_message_rate};
  return {
      field("servers", &P::servers, form::integer(1, 10'000), "Servers that share the parameters."),
      silent("server_host", &P::server_host,
             Form<std::string>{type::name() | type::text("a node group"), &Value::as_string},
             "Where the servers run.")
          .otherwise("(a group without GPUs, else worker)"),
      {{{"staleness", type::integer(0).or_word("unbounded"), "0",
         "0: synchronous; N: workers at most N apart (SSP); `unbounded`: asynchronous.",
         "Ho et al. 2013"}},
       [](Map& map, P& ps) { ps.staleness = read_staleness(map); }},
      field("backup_workers", &P::backup_workers, form::integer(0, kMostRanks),
            "The last gradients of a round are dropped.", "Chen et al. 2016"),
      field("apply_rate", &P::apply_rate, "Gradient bytes that one server applies per second.")
          .otherwise("(from host_bandwidth and cores)"),
      {{{"aggregate", type::choice({"none", "node"}), "none or node",
         "`node`: a node sums its gradients before a push, as of mxnet, tensorflow, byteps.",
         "MXNet kvstore, BytePS"}},
       [framework](Map& map, P& ps) {
         read_choice_of(map, *framework, "aggregate", ps.aggregate, kAggregates);
       }},
      {{{"server", type::choice({"ours", "mxnet", "tensorflow", "byteps"}), "ours or byteps",
         "Whose server: its CPU rates and time of a message where nobody says them.",
         "platforms/servers.yaml"}},
       [framework](Map& map, P& ps) {
         const std::string section = "strategy.ps.";
         ps.server = framework->find(section + "server")
                         ? framework->choice_or(map, section, "server", server_names())
                         : map.choice_or("server", ps.server, server_names());
       }},
      field("worker_cpu_rate", &P::worker_cpu_rate, kMessages,
            "Bytes that a worker's CPU packs per second, for each server.")
          .otherwise("(as `server` has it; ours 2.8 GB/s, over TCP 1.4)"),
      field("per_message", &P::per_message, "CPU time of each tensor's message beside its bytes.")
          .otherwise("(as `server` has it; ours 0 s)"),
      field("server_cpu_rate", &P::server_cpu_rate, kMessages,
            "The same of a server, in its queue.")
          .otherwise("(as `server` has it; ours 2.8 GB/s, over TCP 1.4)"),
      {{{"partition", type::choice({"size", "unit"}) | type::size(), "size",
         "How servers share the parameters: evenly, whole units, or slices of a size in turn."}},
       [framework](Map& map, P& ps) { read_usual_partition(map, *framework, ps); }},
      {{{"layerwise", type::flag(), "false or true",
         "Units are pulled and pushed one by one, as of mxnet, tensorflow, byteps."}},
       [framework](Map& map, P& ps) {
         const std::string section = "strategy.ps.";
         ps.layerwise = framework->find(section + "layerwise")
                            ? framework->bool_or(map, section, "layerwise")
                            : map.bool_or("layerwise", ps.layerwise);
       }},
      {{{"scheduling", type::choice({"fifo", "priority"}), "fifo or priority",
         "`priority`: of what waits, the unit nearest to the input goes first, as of byteps.",
         "P3, ByteScheduler"}},
       [framework](Map& map, P& ps) {
         read_choice_of(map, *framework, "scheduling", ps.scheduling, kSchedulings);
       }},
      {{{"protocol", type::choice({"own_request", "behind_push"}), "(own_request)",
         "Bounded or asynchronous: a worker's pull waits behind others' pushes, or comes with its "
         "own.",
         "ps-lite, MXNet, BytePS; rehearse-calibrate has behind_push"}},
       [framework](Map& map, P& ps) { read_protocol(map, *framework, ps); }},
      field("warmup_rounds", &P::warmup_rounds, form::integer(0, 1'000'000),
            "Synchronous rounds at first."),
      silent("switch", &P::switch_share, form::within(0, 0.999),
             "Share of the training that all workers do in step before updates go stale.",
             "Sync-Switch (Li et al. 2021)")
          .otherwise("0"),
      field("local_steps", &P::local_steps, form::integer(1, kMostMicroBatches),
            "A worker's own steps between pull and push.", "McMahan et al. 2017"),
      field("outer_optimizer", &P::outer,
            outer_optimizer_form("SGD on each pseudo-gradient, or on a round's mean."),
            "With local steps: what the server makes of pseudo-gradients.", "Liu et al. 2024")
          .otherwise("(what workers push is added)"),
      outer_compression_field<P>(),
      field("sampled_workers", &P::sampled_workers, form::integer(0, kMostRanks),
            "Workers drawn for each round; 0: all.", "McMahan et al. 2017")};
}

/// A server that is sent gradients takes the optimizer's own steps.
void check_outer_step(Map& map, const ParameterServer& ps) {
  if (!ps.outer)
    return refuse_without_outer_optimizer(
        map, "compression",
        ps.local_steps > 1 ? kSetOuter : "set local_steps: 50 and outer_optimizer: {sgd: {}}");
  if (ps.local_steps > 1) return;
  const bool may_be_local = ps.aggregate == ParameterServer::Aggregate::none;
  map.at_key("outer_optimizer")
      .fail("without local steps a worker pushes gradients, which the optimizer itself is for",
            may_be_local ? "set local_steps: 50, or remove it" : "remove it");
}

}  // namespace

std::vector<Key> parameter_server_keys() { return keys_of(server_fields(nullptr)); }

ParameterServer read_parameter_server(Map& map, Framework& framework) {
  const ParameterServer ps = read_fields(map, server_fields(&framework));
  if (ps.scheduling == ParameterServer::Scheduling::priority && !ps.layerwise)
    map.at_key("scheduling")
        .fail("whole models travel at once: no part of one is more urgent", "add layerwise: true");
  check_outer_step(map, ps);
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
  if (ps.switch_share > 0 && ps.staleness == 0u) {
    map.at_key("switch").fail("all of the training is in step already",
                              "set staleness to a bound or unbounded, or remove switch");
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
