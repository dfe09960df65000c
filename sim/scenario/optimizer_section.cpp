#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

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

/// DeepSpeed's third device is no misspelling of the two.
bool reads_cpu(const Value& offload) {
  if (offload.shown() == "nvme")
    offload.fail("states on NVMe are not simulated",
                 "cpu, if the hosts' memory holds them; with NVMe a step takes longer");
  return offload.as_choice({"none", "cpu"}) == "cpu";
}

}  // namespace

Optimizer read_optimizer_section(const Value& value, Framework& framework, Precision precision) {
  NamedOptions named = read_named_options(value, optimizer_names(), "an optimizer");
  Optimizer optimizer{.kind = parse_optimizer(named.name), .of = precision};
  if (has_fused_option(optimizer.kind)) {
    Map& options = named.options;
    const bool asked = options.has("foreach");
    const bool fused = framework.flag("optimizer.fused") && !asked;
    if (!asked && !options.has("fused")) framework.note("optimizer.fused");
    optimizer.fused = options.bool_or("fused", fused);
    const bool lists = framework.find("optimizer.foreach") != "false";
    if (!asked && !optimizer.fused && !lists) framework.note("optimizer.foreach");
    if (asked || !optimizer.fused) optimizer.foreach = options.bool_or("foreach", lists);
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
      optimizer.offload = reads_cpu(*offload);
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
  const bool whole = is_alone(strategy) || is_replicated(strategy) || shards_optimizer(strategy);
  if (whole && !strategy.layout) return;
  const std::string missing =
      strategy.layout
          ? "Muon's step of a split network is not here: how ranks gather each matrix's "
            "parts, and which of them steps with which matrix"
          : fmt::format("Muon's step needs whole matrices, and is not known of {}",
                        strategy_name(strategy));
  value.fail(
      missing,
      "strategy: {ddp: {}} or {zero: {stage: 1}} of framework: torch, or optimizer: {adamw: {}}");
}

/// PyTorch's hook behind AccumulateGrad sees a gradient before anything has reduced or added to it.
void check_in_backward(const Value& value, const Scenario& scenario) {
  const Strategy& strategy = scenario.strategy;
  if (!is_replicated(strategy) || strategy.layout || strategy.local_sgd ||
      scenario.cluster.gpu_count() > 1)
    value.fail("a step in backward is known of one GPU, where no gradient is reduced first",
               "in_backward: false, or a cluster of one GPU under ddp");
  if (gradient_accumulation(strategy) > 1)
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
  if (steps_by_bucket(scenario.strategy))
    value.fail("a norm of all gradients would wait for each bucket before any of them steps",
               "clip_grad: 0, or strategy: {ddp: {scheduling: fifo}}");
}

void check_grad_scaler(const Value& value, const Scenario& scenario) {
  if (scenario.optimizer.in_backward)
    value.fail("no gradient is left to unscale once its step has used it",
               "grad_scaler: false, or in_backward: false");
  if (server_in(scenario.strategy) != nullptr)
    value.fail("a server's step is not known to unscale gradients",
               "grad_scaler: false, or strategy: {ddp: {}}");
  if (steps_by_bucket(scenario.strategy))
    value.fail("infinities are looked for in all gradients before any of them steps",
               "grad_scaler: false, or strategy: {ddp: {scheduling: fifo}}");
}

bool computes_in_fp16(const Scenario& scenario) {
  if (scenario.precision == Precision::fp16 || scenario.precision == Precision::fp16_master)
    return true;
  const auto fsdp = sharded_in(scenario.strategy);
  return fsdp && fsdp->param_dtype == Precision::fp16_pure;
}

}  // namespace

void apply_clipping(Framework& framework, Scenario& scenario) {
  if (scenario.optimizer.clip_grad || scenario.optimizer.in_backward) return;
  if (server_in(scenario.strategy) != nullptr || steps_by_bucket(scenario.strategy)) return;
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
  if (server_in(scenario.strategy) != nullptr || steps_by_bucket(scenario.strategy)) return;
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

}  // namespace rehearse::inline scenario
