#include <fmt/format.h>

#include "config/mistakes.hpp"
#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostTrainings = 100'000;
constexpr std::int64_t kMostSpares = 1'000'000;

Seconds positive_time(const Value& value) {
  const Seconds time = value.as_seconds();
  if (time <= Seconds(0)) value.fail("expected a time above 0; got \"" + value.shown() + "\"");
  return time;
}

std::optional<Seconds> positive_time_if(Map& map, const std::string& key) {
  const std::optional<Value> value = map.optional(key);
  return value ? std::optional(positive_time(*value)) : std::nullopt;
}

// --- energy

EnergyOptions read_energy(const Value& value, const Cluster& cluster) {
  Map map = value.as_map();
  EnergyOptions energy;
  energy.compute = number_within(map, "compute", energy.compute, 0, 1);
  energy.communication = number_within(map, "communication", energy.communication, 0, 1);
  energy.idle = number_within(map, "idle", energy.idle, 0, 1);
  if (const std::optional<Value> host = map.optional("host")) energy.host = read_watts(*host);
  energy.pue = number_within(map, "pue", energy.pue, 1, 10);
  if (const std::optional<Value> grid = map.optional("grid_gco2_per_kwh")) {
    energy.grid_gco2_per_kwh = grid->as_non_negative_number();
  }
  if (const std::optional<Value> price = map.optional("usd_per_kwh")) {
    energy.usd_per_kwh = price->as_non_negative_number();
  }
  map.finish();
  for (const NodeGroup& group : cluster.groups) {
    if (group.node.gpus == 0 || group.node.gpu.tdp) continue;
    value.fail(fmt::format("what the GPU {} draws is not known", group.node.gpu.name),
               "give the node its thermal design power, such as `tdp: 400W`");
  }
  return energy;
}

// --- failures

double read_shape(Map& failures) {
  const std::optional<Value> value =
      failures.has("distribution") ? failures.optional("distribution") : std::nullopt;
  if (!value || value->is_scalar()) {
    failures.choice_or("distribution", "exponential", {"exponential"});
    return 1;
  }
  NamedOptions named = read_named_options(*value, {"weibull"}, "a distribution");
  named.options.require("shape");
  const double shape = number_within(named.options, "shape", 1, 0.2, 10);
  named.options.finish();
  return shape;
}

CheckpointOptions read_checkpoint(const Value& value) {
  Map map = value.as_map();
  CheckpointOptions checkpoint;
  const std::optional<Value> interval = map.optional("interval");
  if (!interval) map.string_or("interval", "auto");
  if (interval && (!interval->is_scalar() || interval->as_string() != "auto")) {
    checkpoint.interval = positive_time(*interval);
  }
  if (const auto write = map.optional("write")) checkpoint.write = write->as_seconds();
  if (const auto read = map.optional("read")) checkpoint.read = read->as_seconds();
  if (const auto rate = map.optional("storage")) checkpoint.storage = rate->as_bytes_per_second();
  if (const auto rate = map.optional("storage_per_node")) {
    checkpoint.storage_per_node = rate->as_bytes_per_second();
  }
  checkpoint.asynchronous = map.bool_or("asynchronous", false);
  map.finish();
  const bool rated = checkpoint.storage || checkpoint.storage_per_node;
  if (rated && checkpoint.write && checkpoint.read) {
    map.at_key(checkpoint.storage ? "storage" : "storage_per_node")
        .fail("`write` and `read` say already how long a checkpoint takes", "remove it");
  }
  if (!rated && !checkpoint.write) {
    value.fail("how long does it take to write a checkpoint?",
               "give `write: 30s`, or the storage's rate, `storage: 25GBps`");
  }
  return checkpoint;
}

/// Spares and repairs may be told of a job that has no use for them: studies vary what it does.
void read_replacement(Map& map, FailureOptions& failures, const Cluster& cluster) {
  const std::optional<Value> repair = map.optional("repair");
  const std::optional<Value> spares = map.optional("spares");
  if (repair) failures.repair = positive_time(*repair);
  const auto count = spares ? static_cast<int>(spares->as_integer(1, kMostSpares)) : 0;
  const std::string name =
      map.choice_or("on_failure", "restart", {"restart", "spare", "continue_with_fewer"});
  if (name == "restart") return;
  map.require("repair");
  failures.on_failure = name == "spare" ? OnFailure::spare : OnFailure::continue_with_fewer;
  if (failures.on_failure == OnFailure::spare) {
    map.require("spares");
    failures.spares = count;
  } else if (cluster.node_count() < 2) {
    map.require("on_failure")
        .fail("without its only node nothing goes on", "use restart, or spare with `spares: 1`");
  }
}

FailureOptions read_failures(const Value& value, const Cluster& cluster) {
  Map map = value.as_map();
  FailureOptions failures;
  failures.mtbf_per_node = positive_time_if(map, "mtbf_per_node");
  failures.mean_time_to_preemption = positive_time_if(map, "mean_time_to_preemption");
  if (!failures.mtbf_per_node && !failures.mean_time_to_preemption) {
    value.mistake("how often does a node fail?",
                  "give `mtbf_per_node: 8000h`, or of spot nodes `mean_time_to_preemption: 20h`");
  }
  failures.weibull_shape = read_shape(map);
  failures.detect = map.seconds_or("detect", Seconds(120));
  failures.restart = map.seconds_or("restart", Seconds(300));
  read_replacement(map, failures, cluster);
  if (!map.has("checkpoint") && nearest("checkpoint", map.keys()).empty())
    value.mistake("the key \"checkpoint\" is missing",
                  "add `checkpoint: {write: 30s}`, or the storage's rate, `{storage: 25GBps}`");
  failures.checkpoint = read_checkpoint(map.require("checkpoint"));
  failures.trainings = map.integer_or("trainings", failures.trainings, 10, kMostTrainings);
  map.finish();
  return failures;
}

// --- start

Arrivals read_arrivals(const Value& value, const Cluster& cluster) {
  Arrivals arrivals;
  if (value.is_list()) {
    for (const Value& time : value.as_list()) arrivals.at.push_back(time.as_seconds());
    const int nodes = nodes_with_gpus(cluster);
    if (arrivals.at.size() != static_cast<std::size_t>(nodes)) {
      value.fail(fmt::format("{} arrivals for {} node{} with GPUs", arrivals.at.size(), nodes,
                             nodes == 1 ? "" : "s"));
    }
    return arrivals;
  }
  NamedOptions named =
      read_named_options(value, {"exponential", "uniform"}, "a distribution or a list of times");
  const bool exponential = named.name == "exponential";
  arrivals.kind = exponential ? Arrivals::Kind::exponential : Arrivals::Kind::uniform;
  arrivals.time = positive_time(named.options.require(exponential ? "mean" : "latest"));
  named.options.finish();
  return arrivals;
}

StartOptions read_start(const Value& value, const Scenario& scenario) {
  Map map = value.as_map();
  StartOptions start;
  start.elastic = map.choice_or("mode", "gang", {"gang", "elastic"}) == "elastic";
  if (start.elastic && server_in(scenario.strategy) == nullptr) {
    map.require("mode").fail(fmt::format("{} begins when all ranks are there; a parameter server "
                                         "can begin with fewer",
                                         strategy_name(scenario.strategy)),
                             "use gang");
  }
  if (!map.has("arrivals") && nearest("arrivals", map.keys()).empty())
    value.mistake("the key \"arrivals\" is missing",
                  "add `arrivals: {exponential: {mean: 2min}}`, or a list of times");
  start.arrivals = read_arrivals(map.require("arrivals"), scenario.cluster);
  map.finish();
  return start;
}

// --- spot

void check_spot(const Value& market, const Scenario& scenario) {
  if (!scenario.failures || !scenario.failures->mean_time_to_preemption) {
    market.fail("spot nodes are taken away: how soon?",
                "give `failures: {mean_time_to_preemption: 20h, ...}`");
  }
  bool priced = false, spot = false;
  for (const NodeGroup& group : scenario.cluster.groups) {
    priced = priced || group.node.usd_per_hour;
    spot = spot || group.node.spot_usd_per_hour;
  }
  if (priced && !spot) {
    market.fail("no node of the cluster has a spot price",
                "give it beside the other, `usd_per_hour: {on_demand: 32.77, spot: 11.3}`");
  }
}

/// Studies vary what a job does when a node fails, and what its nodes cost: what it has no use for
/// is told.
void say_unused(const FailureOptions& failures, const Train& train,
                std::vector<std::string>& assumptions) {
  if (failures.repair > Seconds(0) && failures.on_failure == OnFailure::restart)
    assumptions.push_back(
        fmt::format("failures.repair = {}: without effect, as on_failure: restart waits for none",
                    format(failures.repair)));
  if (failures.mean_time_to_preemption && train.market == Market::on_demand)
    assumptions.push_back(fmt::format(
        "failures.mean_time_to_preemption = {}: without effect, as train.market is on_demand",
        format(*failures.mean_time_to_preemption)));
}

void check_has_length(const Value& value, const Train& train) {
  if (train.steps || (train.samples_per_epoch && train.epochs)) return;
  value.fail("how long is the training that fails?",
             "give `train: {samples_per_epoch: 50000, epochs: 10}`, or `train: {steps: 10000}`");
}

}  // namespace

int nodes_with_gpus(const Cluster& cluster) {
  int nodes = 0;
  for (const NodeGroup& group : cluster.groups) nodes += group.node.gpus > 0 ? group.nodes : 0;
  return nodes;
}

void read_economy_sections(Map& root, Scenario& scenario) {
  const std::optional<Value> energy = root.optional("energy");
  const std::optional<Value> failures = root.optional("failures");
  const std::optional<Value> start = root.optional("start");
  read_part([&] {
    if (energy) scenario.energy = read_energy(*energy, scenario.cluster);
  });
  read_part([&] {
    if (!failures) return;
    scenario.failures = read_failures(*failures, scenario.cluster);
    check_has_length(*failures, scenario.train);
    say_unused(*scenario.failures, scenario.train, scenario.assumptions);
  });
  read_part([&] {
    if (start) scenario.start = read_start(*start, scenario);
  });
  if (scenario.train.market == Market::spot) {
    check_spot(root.require("train").as_map().require("market"), scenario);
  }
}

}  // namespace rehearse::inline scenario
