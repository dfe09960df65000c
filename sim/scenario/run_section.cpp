#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline scenario {
namespace {

/// No statistic of a report asks for more: the mean of so many is known to 0.3 % of their spread.
constexpr std::int64_t kMostSteps = 100'000;
constexpr std::int64_t kMostReplications = 999;
/// Each rank's end of each step is kept: this many take some hundred megabytes.
constexpr std::int64_t kMostRankSteps = 20'000'000;

Jitter read_jitter(const Value& value) {
  if (value.is_scalar()) {
    if (value.as_choice({"none", "measured"}) == "none") return {};
    return {.distribution = Jitter::Distribution::measured};
  }
  NamedOptions named = read_named_options(value, {"lognormal", "exponential"}, "a distribution");
  Jitter jitter{.distribution = Jitter::Distribution::exponential, .cv = 1};
  if (named.name == "lognormal") {
    jitter.distribution = Jitter::Distribution::lognormal;
    named.options.require("cv");
    jitter.cv = number_within(named.options, "cv", 0, 0, 10);
  } else {
    jitter.cv = number_within(named.options, "cv", 1, 0, 1);
  }
  named.options.finish();
  return jitter;
}

/// So many, or as many as it takes to know their median to a precision.
Replications read_replications(const Value& value) {
  if (!value.is_map()) {
    const auto number = static_cast<std::uint32_t>(value.as_integer(1, kMostReplications));
    return {.at_least = number, .at_most = number};
  }
  Map map = value.as_map();
  map.require("precision");
  Replications replications{.precision = number_within(map, "precision", 0, 1e-4, 1)};
  const std::int64_t least = map.integer_or("at_least", 5, 1, kMostReplications);
  replications.at_least = static_cast<std::uint32_t>(least);
  replications.at_most = static_cast<std::uint32_t>(
      map.integer_or("at_most", std::max<std::int64_t>(99, least), least, kMostReplications));
  map.finish();
  return replications;
}

std::vector<Straggler> read_stragglers(Map& run, std::size_t ranks) {
  std::vector<Straggler> stragglers;
  const std::optional<Value> list = run.optional("stragglers");
  if (!list) return stragglers;
  if (list->is_map()) {
    list->mistake("expected a list of ranks; got a map", "write [{rank: 0, slowdown: 1.2}]");
    return stragglers;
  }
  std::set<std::size_t> seen;
  for (const Value& value : list->as_list()) {
    Map map = value.as_map();
    const Value rank = map.require("rank");
    const auto index =
        static_cast<std::size_t>(rank.as_integer(0, static_cast<std::int64_t>(ranks) - 1));
    if (!seen.insert(index).second) rank.fail(fmt::format("rank {} is listed twice", index));
    const std::optional<Value> delay = map.optional("delay");
    if (!delay) map.require("slowdown");
    stragglers.push_back({index, number_within(map, "slowdown", 1, 1, 1000),
                          delay ? delay->as_seconds() : Seconds(0)});
    map.finish();
  }
  return stragglers;
}

AnalyticEfficiency read_efficiency(Map& run) {
  AnalyticEfficiency efficiency;
  // Not read through the absent section: models whose times are given do not use it, and the costs
  // state it.
  const std::optional<Value> value = run.optional("efficiency");
  if (!value) return efficiency;
  Map map = value->as_map();
  const auto share = [&](const char* key) -> std::optional<double> {
    constexpr double kLeast = 1e-6;
    if (!map.has(key)) return std::nullopt;
    return number_within(map, key, 1, kLeast, 1);
  };
  efficiency.matrix = share("matrix");
  efficiency.depthwise = share("depthwise");
  efficiency.attention = share("attention");
  efficiency.memory = share("memory");
  if (const auto launch = map.optional("kernel_launch"))
    efficiency.kernel_launch = launch->as_seconds();
  if (const auto launch = map.optional("host_launch"))
    efficiency.host_launch = launch->as_seconds();
  map.finish();
  return efficiency;
}

FidelityChoice read_fidelity(Map& run) {
  const std::string name = run.choice_or("fidelity", "auto", {"hop", "flow", "folded", "auto"});
  if (name == "hop") return FidelityChoice::hop;
  if (name == "flow") return FidelityChoice::flow;
  return name == "folded" ? FidelityChoice::folded : FidelityChoice::automatic;
}

/// Rejects what would not fit into memory. A key that is missing has a default far below the limit.
void check_steps(Map& run, const RunOptions& options, std::size_t ranks) {
  const auto rank_steps =
      static_cast<std::int64_t>(ranks) * (std::int64_t{options.steps} + options.warmup_steps);
  if (rank_steps <= kMostRankSteps) return;
  const std::string message =
      fmt::format("{} ranks times {} steps are more than {} million", ranks,
                  std::int64_t{options.steps} + options.warmup_steps, kMostRankSteps / 1'000'000);
  const std::string key = run.has("steps") ? "steps" : "warmup_steps";
  (run.has(key) ? run.require(key) : run.where()).fail(message, "simulate fewer steps");
}

/// `state_dtype: fp32 | bf16 | fp16` and `master_dtype: fp32 | none`.
void read_formats(Map& map, Optimizer& optimizer) {
  if (const auto state = map.optional("state_dtype")) {
    if (optimizer_memory(optimizer).states == 0) {
      map.at_key("state_dtype")
          .fail(fmt::format("{} keeps no state", to_string(optimizer.kind)), "leave it out");
    }
    optimizer.state_element = Bytes(state->as_choice({"fp32", "bf16", "fp16"}) == "fp32" ? 4 : 2);
  }
  const auto master = map.optional("master_dtype");
  if (!master) return;
  optimizer.master_element = Bytes(master->as_choice({"fp32", "none"}) == "fp32" ? 4 : 0);
  if (*optimizer.master_element > Bytes(0) && parameter_element(optimizer.of) == Bytes(4)) {
    map.at_key("master_dtype")
        .fail(
            fmt::format("the parameters of precision {} are fp32 already", to_string(optimizer.of)),
            "leave it out, or set model.precision: bf16_master");
  }
}

/// Values that PyTorch's constructors take and on which no step's time depends.
void refuse_values(Map& optimizer) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kRemedies = {
      {{"weight_decay", "leave it out; any takes as long"},
       {"betas", "leave it out; any take as long"},
       {"eps", "leave it out; any takes as long"},
       {"lr", "leave it out; what it does to accuracy: convergence.learning_rate"},
       {"learning_rate", "leave it out; what it does to accuracy: convergence.learning_rate"},
       {"momentum",
        "write sgd_momentum: {}, which takes as long with any; what it does to accuracy: "
        "convergence.momentum"}}};
  for (const auto& [key, remedy] : kRemedies) {
    if (optimizer.has(key))
      optimizer.require(key).mistake(fmt::format("no step's time depends on the value of {}", key),
                                     remedy);
  }
}

}  // namespace

double number_within(Map& map, const std::string& key, double fallback, double low, double high) {
  const double number = map.number_or(key, fallback);
  if (number >= low && number <= high) return number;
  const Value value = map.require(key);
  value.mistake(
      fmt::format("expected a number from {} to {}; got \"{}\"", low, high, value.shown()));
  return std::clamp(fallback, low, high);
}

Optimizer read_optimizer_section(const Value& value, Framework& framework, Precision precision) {
  NamedOptions named = read_named_options(value, optimizer_names(), "an optimizer");
  Optimizer optimizer{.kind = parse_optimizer(named.name), .of = precision};
  if (has_fused_option(optimizer.kind)) {
    Map& options = named.options;
    const bool asked = options.has("foreach");
    const bool fused = framework.flag("optimizer.fused") && !asked;
    if (!asked && !options.has("fused")) framework.note("optimizer.fused");
    optimizer.fused = options.bool_or("fused", fused);
    if (asked || !optimizer.fused) optimizer.foreach = options.bool_or("foreach", true);
    if (asked && optimizer.fused && optimizer.foreach) {
      options.require("foreach").fail("an optimizer is either fused or foreach",
                                      "leave one of them out");
    }
  }
  read_formats(named.options, optimizer);
  const bool muon = optimizer.kind == OptimizerKind::muon;
  if (!muon && optimizer_memory(optimizer).states > 0)
    if (const auto paged = named.options.optional("paged")) optimizer.paged = paged->as_bool();
  if (!muon)
    if (const auto offload = named.options.optional("offload"))
      optimizer.offload = offload->as_choice({"none", "cpu"}) == "cpu";
  if (!optimizer.offload)
    if (const auto early = named.options.optional("in_backward"))
      optimizer.in_backward = early->as_bool();
  if (named.options.optional("clip_grad"))
    optimizer.clip_grad = number_within(named.options, "clip_grad", 0, 0, 1e9);
  if (const auto scaler = named.options.optional("grad_scaler"))
    optimizer.grad_scaler = scaler->as_bool();
  refuse_values(named.options);
  named.options.finish();
  return optimizer;
}

namespace {

bool has_hidden_matrices(const Model& model) {
  return std::ranges::any_of(model.units, [](const Unit& unit) {
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained && hidden_matrix(unit, i)) return true;
    return false;
  });
}

void check_muon(const Value& value, const Scenario& scenario) {
  if (!has_hidden_matrices(scenario.model))
    value.fail(fmt::format("{} has no linear layer between its first and its last, whose weight "
                           "Muon would update",
                           scenario.model.name),
               "optimizer: {adamw: {}}");
  const Strategy& strategy = scenario.strategy;
  // Under zero 1 each rank steps with the matrices that it owns (nanochat's DistMuon).
  const bool whole =
      is_alone(strategy) || ddp_in(strategy) != nullptr || zero_in(strategy) != nullptr;
  if (whole && !strategy.layout) return;
  value.fail(fmt::format("Muon's step needs whole matrices, and under {} no rank has them",
                         strategy_name(strategy)),
             "strategy: {ddp: {}} or {zero: {stage: 1}}, or optimizer: {adamw: {}}");
}

/// PyTorch's hook behind AccumulateGrad sees a gradient before anything has reduced or added to it.
void check_in_backward(const Value& value, const Scenario& scenario) {
  const Strategy& strategy = scenario.strategy;
  const auto* ddp = ddp_in(strategy);
  if (ddp == nullptr || strategy.layout || strategy.local_sgd || scenario.cluster.gpu_count() > 1)
    value.fail("a step in backward is known of one GPU, where no gradient is reduced first",
               "in_backward: false, or a cluster of one GPU under ddp");
  if (ddp->gradient_accumulation > 1)
    value.fail("a gradient that its step has used cannot add up over micro-batches",
               "in_backward: false, or gradient_accumulation: 1");
}

void check_clip_grad(const Value& value, const Scenario& scenario) {
  if (scenario.optimizer.in_backward)
    value.fail("no gradient is left for a norm once its step has used it",
               "clip_grad: 0, or in_backward: false");
  if (server_in(scenario.strategy) != nullptr)
    value.fail("a server's step is not known to clip gradients",
               "clip_grad: 0, or strategy: {ddp: {}}");
}

void check_grad_scaler(const Value& value, const Scenario& scenario) {
  if (scenario.optimizer.in_backward)
    value.fail("no gradient is left to unscale once its step has used it",
               "grad_scaler: false, or in_backward: false");
  if (server_in(scenario.strategy) != nullptr)
    value.fail("a server's step is not known to unscale gradients",
               "grad_scaler: false, or strategy: {ddp: {}}");
}

bool computes_in_fp16(const Scenario& scenario) {
  if (scenario.precision == Precision::fp16 || scenario.precision == Precision::fp16_master)
    return true;
  const auto* fsdp = fsdp_in(scenario.strategy);
  return fsdp != nullptr && fsdp->param_dtype == Precision::fp16_pure;
}

}  // namespace

void apply_clipping(Framework& framework, Scenario& scenario) {
  if (scenario.optimizer.clip_grad || scenario.optimizer.in_backward) return;
  if (server_in(scenario.strategy) != nullptr) return;
  const std::string key = "optimizer.clip_grad";
  framework.note(key);
  const double norm = framework.number(key);
  if (norm == 0) return;
  scenario.optimizer.clip_grad = norm;
  scenario.assumptions.push_back(
      fmt::format("{} = {:g}: gradients are clipped, as {} does", key, norm, framework.title()));
}

void apply_grad_scaler(Scenario& scenario) {
  if (scenario.optimizer.grad_scaler || scenario.optimizer.in_backward) return;
  if (server_in(scenario.strategy) != nullptr) return;
  if (!computes_in_fp16(scenario)) return;
  scenario.optimizer.grad_scaler = true;
  scenario.assumptions.emplace_back(
      "optimizer.grad_scaler = true: the loss is scaled, as fp16 asks");
}

void check_optimizer(const Value& value, const Scenario& scenario) {
  Map map = value.as_map();
  const Value options = map.require(map.keys().front());
  const Optimizer& optimizer = scenario.optimizer;
  if (optimizer.kind == OptimizerKind::muon) check_muon(options, scenario);
  if (optimizer.in_backward) check_in_backward(options.as_map().at_key("in_backward"), scenario);
  if (optimizer.clips() && options.as_map().has("clip_grad"))
    check_clip_grad(options.as_map().at_key("clip_grad"), scenario);
  if (optimizer.scales() && options.as_map().has("grad_scaler"))
    check_grad_scaler(options.as_map().at_key("grad_scaler"), scenario);
}

Train read_train_section(const Value& value) {
  Map map = value.as_map();
  Train train;
  if (const auto samples = map.optional("samples_per_epoch")) {
    train.samples_per_epoch = samples->as_integer(1, 1'000'000'000'000'000);
  }
  map.optional("tokens");  // both are read with the model, the cluster and the strategy
  map.optional("global_batch");
  if (const auto epochs = map.optional("epochs")) {
    train.epochs = number_within(map, "epochs", 1, 1e-9, 1e6);
    if (!map.has("samples_per_epoch") && !map.has("tokens"))
      epochs->mistake("epochs of how many samples?",
                      "add samples_per_epoch, or say tokens instead");
  }
  if (const auto steps = map.optional("steps")) {
    train.steps = steps->as_integer(1, 1'000'000'000'000'000);
    for (const char* other : {"epochs", "tokens"})
      if (map.has(other))
        steps->mistake(fmt::format("steps and {} say the same thing", other),
                       "leave one of them out");
  }
  if (const auto market = map.optional("market")) {
    train.market =
        market->as_choice({"on_demand", "spot"}) == "spot" ? Market::spot : Market::on_demand;
  }
  map.finish();
  return train;
}

/// Compute beside communication: nothing is said where that was measured.
void read_overlap(Map& map, bool measured, RunOptions& run) {
  if (!map.has("overlap_slowdown") && measured) return;
  const std::optional<Value> value = map.optional("overlap_slowdown");
  const std::string text = value && value->is_scalar() ? value->shown() : "";
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0)
    run.overlap_slowdown = number_within(map, "overlap_slowdown", 1, 1, 100);
  else if (value->as_choice({"channels", "none"}) == "none")
    run.overlap_slowdown = 1;
  else
    run.channels_slow_compute = true;
}

/// `data_loading: {sample: 8ms, num_workers: 8, prefetch_factor: 2}`.
DataLoading read_data_loading(const Value& value, Framework& framework) {
  Map map = value.as_map();
  DataLoading loading;
  const Value sample = map.require("sample");
  loading.sample = sample.as_seconds();
  if (loading.sample <= Seconds(0))
    sample.fail("a sample that takes no time needs no data_loading", "remove data_loading");
  loading.workers =
      static_cast<int>(framework.integer_or(map, "run.data_loading.", "num_workers", 0, 10'000));
  const std::optional<Value> factor = map.optional("prefetch_factor");
  if (factor && loading.workers == 0)
    factor->fail("without workers nothing is loaded ahead, as PyTorch says",
                 "set num_workers, or remove it");
  if (factor) loading.prefetch_factor = static_cast<int>(factor->as_integer(1, 10'000));
  map.finish();
  return loading;
}

RunOptions read_run_section(const Value& value, std::size_t ranks, Framework& framework,
                            const CommProfile* comm) {
  Map map = value.as_map();
  RunOptions run;
  run.steps = static_cast<std::uint32_t>(map.integer_or("steps", run.steps, 1, kMostSteps));
  run.warmup_steps =
      static_cast<std::uint32_t>(map.integer_or("warmup_steps", run.warmup_steps, 0, kMostSteps));
  if (const auto play = map.optional("play"))
    run.play_all = play->as_choice({"steady", "all"}) == "all";
  if (const auto until = map.optional("until"))
    if (until->as_choice({"steady", "steps"}) == "steps") run.until = RunUntil::steps;
  run.seed = static_cast<std::uint64_t>(
      map.integer_or("seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  run.fidelity = read_fidelity(map);
  const std::optional<Value> jitter = map.optional("jitter");
  run.usual_jitter = !jitter;
  if (jitter) run.jitter = read_jitter(*jitter);
  if (const auto count = map.optional("replications")) run.replications = read_replications(*count);
  run.stragglers = read_stragglers(map, ranks);
  run.usual_spread = !map.optional("speed_spread");
  if (!run.usual_spread) run.speed_spread = number_within(map, "speed_spread", 0, 0, 1);
  read_overlap(map, comm != nullptr && !comm->overlap.empty(), run);
  run.efficiency = read_efficiency(map);
  if (const auto loading = map.optional("data_loading"))
    run.data_loading = read_data_loading(*loading, framework);
  run.set_to_none = map.bool_or("set_to_none", run.set_to_none);
  map.finish();
  check_steps(map, run, ranks);
  return run;
}

}  // namespace rehearse::inline scenario
