#include <fmt/format.h>

#include <algorithm>

#include "config/fields.hpp"
#include "config/mistakes.hpp"
#include "scenario/section_keys.hpp"
#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostTrainings = 100'000;
constexpr std::int64_t kMostSpares = 1'000'000;

// --- energy

Fields<EnergyOptions> energy_fields() {
  using E = EnergyOptions;
  return {
      field("compute", &E::compute, form::within(0, 1), "Share of a GPU's TDP while it computes."),
      field("communication", &E::communication, form::within(0, 1),
            "The same in exposed communication."),
      field("idle", &E::idle, form::within(0, 1), "The same while it waits."),
      field("host", &E::host, Form<Watts>{type::text("W, kW"), read_watts},
            "Power of a node beside its GPUs.")
          .otherwise("(from the GPUs)"),
      field("pue", &E::pue, form::within(1, 10),
            "Power of the building over that of its machines."),
      field("grid_gco2_per_kwh", &E::grid_gco2_per_kwh, form::not_negative().in("g/kWh"),
            "CO2 of the grid."),
      field("usd_per_kwh", &E::usd_per_kwh, form::not_negative().in("USD"), "Price of energy.")};
}

EnergyOptions read_energy(const Value& value, const Cluster& cluster) {
  const EnergyOptions energy = read_fields(value, energy_fields());
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
  const double shape = form::within(0.2, 10).read(named.options.require("shape"));
  named.options.finish();
  return shape;
}

/// `auto` is nothing: the best.
std::optional<Seconds> read_interval(const Value& value) {
  if (value.is_scalar() && value.as_string() == "auto") return std::nullopt;
  return form::time_above_0().read(value);
}

Fields<CheckpointOptions> checkpoint_fields() {
  using C = CheckpointOptions;
  return {
      {{{"interval", type::word("auto") | type::time(), "auto", "Time between two checkpoints."}},
       [](Map& map, C& checkpoint) {
         if (const auto interval = map.optional("interval"))
           checkpoint.interval = read_interval(*interval);
         else
           map.string_or("interval", "auto");
       }},
      field("write", &C::write, "To write one.").otherwise("(from `storage`)"),
      field("read", &C::read, "To read one.").otherwise("(from `storage`)"),
      field("storage", &C::storage, "Rate of the storage as a whole."),
      field("storage_per_node", &C::storage_per_node, "Rate that one node reaches."),
      field("asynchronous", &C::asynchronous, "Training goes on meanwhile.")};
}

void check_checkpoint(Map& map, CheckpointOptions& checkpoint) {
  const bool rated = checkpoint.storage || checkpoint.storage_per_node;
  if (rated && checkpoint.write && checkpoint.read) {
    map.at_key(checkpoint.storage ? "storage" : "storage_per_node")
        .fail("`write` and `read` say already how long a checkpoint takes", "remove it");
  }
  if (!rated && !checkpoint.write) {
    map.where().fail("how long does it take to write a checkpoint?",
                     "give `write: 30s`, or the storage's rate, `storage: 25GBps`");
  }
}

Fields<FailureOptions> failure_fields() {
  using F = FailureOptions;
  return {
      field("mtbf_per_node", &F::mtbf_per_node, form::time_above_0(),
            "Mean time between failures of one node."),
      field("mean_time_to_preemption", &F::mean_time_to_preemption, form::time_above_0(),
            "Until a spot node is taken away, in the mean."),
      {{{"distribution", type::choice({"exponential"}) | type::map(), "exponential",
         "Of the times between failures."},
        {"distribution.weibull", type::map(), "-", "Weibull."},
        {"distribution.weibull.shape", type::within(0.2, 10), "required", "Its shape."}},
       [](Map& map, F& failures) { failures.weibull_shape = read_shape(map); }},
      field("detect", &F::detect, "Until a failure is noticed."),
      field("restart", &F::restart, "To start the job again."),
      field("on_failure", &F::on_failure,
            form::choice<OnFailure>({{"restart", OnFailure::restart},
                                     {"spare", OnFailure::spare},
                                     {"continue_with_fewer", OnFailure::continue_with_fewer}}),
            "What is done."),
      silent("spares", &F::spares, form::integer(1, kMostSpares).in("nodes"), "Nodes in reserve."),
      silent("repair", &F::repair, form::time_above_0(), "Until a failed node is back."),
      required("checkpoint", &F::checkpoint, form::map(checkpoint_fields(), check_checkpoint),
               "How state is saved."),
      field("trainings", &F::trainings, form::integer(10, kMostTrainings),
            "Trainings that are played.")};
}

/// Spares and repairs may be told of a job that has no use for them: studies vary what it does.
void check_replacement(Map& map, FailureOptions& failures, const Cluster& cluster) {
  if (failures.on_failure != OnFailure::restart) map.require("repair");
  if (failures.on_failure == OnFailure::spare)
    map.require("spares");
  else
    failures.spares = 0;
  if (failures.on_failure == OnFailure::continue_with_fewer && cluster.node_count() < 2) {
    map.require("on_failure")
        .fail("without its only node nothing goes on", "use restart, or spare with `spares: 1`");
  }
}

FailureOptions read_failures(const Value& value, const Cluster& cluster) {
  Map map = value.as_map();
  if (!map.has("mtbf_per_node") && !map.has("mean_time_to_preemption")) {
    value.mistake("how often does a node fail?",
                  "give `mtbf_per_node: 8000h`, or of spot nodes `mean_time_to_preemption: 20h`");
  }
  if (!map.has("checkpoint") && nearest("checkpoint", map.keys()).empty())
    value.mistake("the key \"checkpoint\" is missing",
                  "add `checkpoint: {write: 30s}`, or the storage's rate, `{storage: 25GBps}`");
  FailureOptions failures = read_fields(map, failure_fields());
  check_replacement(map, failures, cluster);
  map.finish();
  return failures;
}

// --- start

Arrivals read_arrivals(const Value& value) {
  Arrivals arrivals;
  if (value.is_list()) {
    for (const Value& time : value.as_list()) arrivals.at.push_back(time.as_seconds());
    return arrivals;
  }
  NamedOptions named =
      read_named_options(value, {"exponential", "uniform"}, "a distribution or a list of times");
  const bool exponential = named.name == "exponential";
  arrivals.kind = exponential ? Arrivals::Kind::exponential : Arrivals::Kind::uniform;
  arrivals.time = form::time_above_0().read(named.options.require(exponential ? "mean" : "latest"));
  named.options.finish();
  return arrivals;
}

Fields<StartOptions> start_fields() {
  using S = StartOptions;
  return {field("mode", &S::elastic, form::choice<bool>({{"gang", false}, {"elastic", true}}),
                "`elastic`: a server begins with who is there."),
          required("arrivals", &S::arrivals,
                   Form<Arrivals>{type::map() | type::list_of(type::time()),
                                  read_arrivals,
                                  {},
                                  {{".exponential", type::map(), "-", "Exponential times."},
                                   {".exponential.mean", type::time(), "required", "Their mean."},
                                   {".uniform", type::map(), "-", "Uniform times."},
                                   {".uniform.latest", type::time(), "required", "The latest."}}},
                   "When nodes come.")};
}

StartOptions read_start(const Value& value, const Scenario& scenario) {
  Map map = value.as_map();
  if (!map.has("arrivals") && nearest("arrivals", map.keys()).empty())
    value.mistake("the key \"arrivals\" is missing",
                  "add `arrivals: {exponential: {mean: 2min}}`, or a list of times");
  const StartOptions start = read_fields(map, start_fields());
  map.finish();
  if (start.elastic && server_in(scenario.strategy) == nullptr) {
    map.require("mode").fail(fmt::format("{} begins when all ranks are there; a parameter server "
                                         "can begin with fewer",
                                         strategy_name(scenario.strategy)),
                             "use gang");
  }
  const std::size_t times = start.arrivals.at.size();
  const int nodes = nodes_with_gpus(scenario.cluster);
  if (start.arrivals.kind == Arrivals::Kind::listed && times != static_cast<std::size_t>(nodes)) {
    map.require("arrivals")
        .fail(fmt::format("{} arrivals for {} node{} with GPUs", times, nodes,
                          nodes == 1 ? "" : "s"));
  }
  return start;
}

// --- market

/// The price that counts is one that a node has: no other market's takes its place unasked.
void check_market(const Value& value, const Scenario& scenario) {
  const Market market = scenario.train.market;
  const bool preempted = scenario.failures && scenario.failures->mean_time_to_preemption;
  const std::vector<NodeGroup>& groups = scenario.cluster.groups;
  const bool priced =
      std::ranges::any_of(groups, [](const NodeGroup& one) { return one.node.prices.any(); });
  const bool has = std::ranges::any_of(
      groups, [&](const NodeGroup& one) { return one.node.prices.in(market).has_value(); });
  const bool is_spot = market == Market::spot;
  const std::string taken_away =
      "`failures: {mean_time_to_preemption: 20h, checkpoint: {write: 30s}}`";
  if (priced && !has) {
    const auto one = std::ranges::find_if(
        groups, [](const NodeGroup& group) { return group.node.prices.on_demand.has_value(); });
    const double usd = one == groups.end() ? 0 : *one->node.prices.on_demand;
    value.fail(fmt::format("no node of the cluster has a {} price", to_string(market)),
               fmt::format("say what it is there, as `cluster.usd_per_hour: {{on_demand: {:.2f}, "
                           "{}: {:.2f}}}`{}",
                           usd, is_spot ? "spot" : "reserved", usd * (is_spot ? 0.4 : 0.6),
                           is_spot && !preempted
                               ? ", and how soon spot nodes are taken away, as " + taken_away
                               : ""));
  }
  if (is_spot && !preempted)
    value.fail("spot nodes are taken away: how soon?", "give " + taken_away);
}

/// Studies vary what a job does when a node fails, and what its nodes cost: what it has no use for
/// is told.
void say_unused(const FailureOptions& failures, const Train& train,
                std::vector<std::string>& assumptions) {
  if (failures.repair > Seconds(0) && failures.on_failure == OnFailure::restart)
    assumptions.push_back(
        fmt::format("failures.repair = {}: without effect, as on_failure: restart waits for none",
                    format(failures.repair)));
  if (failures.mean_time_to_preemption && train.market != Market::spot)
    assumptions.push_back(
        fmt::format("failures.mean_time_to_preemption = {}: without effect, as train.market is {}",
                    format(*failures.mean_time_to_preemption),
                    train.market == Market::reserved ? "reserved" : "on_demand"));
}

void check_has_length(const Value& value, const Train& train) {
  if (train.steps || (train.samples_per_epoch && train.epochs)) return;
  value.fail("how long is the training that fails?",
             "give `train: {samples_per_epoch: 50000, epochs: 10}`, or `train: {steps: 10000}`");
}

}  // namespace

std::vector<Key> energy_keys() { return keys_of(energy_fields()); }
std::vector<Key> failure_keys() { return keys_of(failure_fields()); }
std::vector<Key> start_keys() { return keys_of(start_fields()); }

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
  if (scenario.train.market != Market::on_demand)
    check_market(root.require("train").as_map().require("market"), scenario);
}

}  // namespace rehearse::inline scenario
