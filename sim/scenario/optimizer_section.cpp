#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/key_list.hpp"
#include "scenario/section_keys.hpp"
#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr Choices<std::int64_t> kStateBytes = {{"fp32", 4}, {"bf16", 2}, {"fp16", 2}};
constexpr Choices<std::int64_t> kMasterBytes = {{"fp32", 4}, {"none", 0}};

constexpr Choices<Offload> kOffloads = {
    {"none", Offload::none}, {"cpu", Offload::cpu}, {"nvme", Offload::nvme}};
constexpr Choices<OffloadOverlap> kOverlaps = {{"none", OffloadOverlap::none},
                                               {"copies", OffloadOverlap::copies},
                                               {"backward", OffloadOverlap::backward}};

/// Keys of any optimizer, below its name.
struct OptimizerKeys : KeyList {
  KeyOf<bool> fused = add<bool>("fused", "false or true", "One kernel for all parameters.");
  KeyOf<bool> foreach = add<bool>("foreach", "true", "Multi-tensor kernels.");
  KeyOf<std::int64_t> state_dtype =
      add("state_dtype", form::choice(kStateBytes), "(as model.precision says)",
          "Type of the optimizer's state.");
  KeyOf<bool> paged =
      add<bool>("paged", "false", "States in memory that the driver moves.", "bitsandbytes");
  KeyOf<Offload> offload = add(
      "offload", form::choice(kOffloads), "none",
      "States are in the host's memory or on its drives, and its CPUs take the step.", "DeepSpeed");
  KeyOf<OffloadOverlap> offload_overlap =
      add("offload_overlap", form::choice(kOverlaps), "none",
          "Copies go on beside the host's step, or both beside backward.",
          "Megatron-LM overlap_cpu_optimizer_d2h_h2d; DeepSpeed super_offload");
  KeyOf<bool> in_backward =
      add<bool>("in_backward", "false",
                "Each step as soon as its gradient is there, which goes at once.", "torchtune");
  KeyOf<double> clip_grad =
      add("clip_grad", form::within(0, 1e9), "0; 1 of megatron and torchtitan",
          "Gradients are scaled to this norm at most; 0: they are not.",
          "PyTorch clip_grad_norm_, Megatron-LM");
  KeyOf<bool> grad_scaler =
      add<bool>("grad_scaler", "true in fp16, else false",
                "The loss is scaled; gradients are unscaled and looked at for infinities.",
                "PyTorch torch.amp.GradScaler, Megatron-LM");
  KeyOf<std::int64_t> master_dtype =
      add("master_dtype", form::choice(kMasterBytes), "(as model.precision says)",
          "Master weights.", "DeepSpeed, Megatron-LM");
};

const OptimizerKeys& of_optimizer() {
  static const OptimizerKeys kKeys;
  return kKeys;
}

/// `state_dtype: fp32 | bf16 | fp16` and `master_dtype: fp32 | none`.
void read_formats(Map& map, Optimizer& optimizer) {
  if (const auto bytes = of_optimizer().state_dtype.in(map)) {
    if (optimizer.kind == OptimizerKind::adamw_8bit)
      map.at_key("state_dtype")
          .fail("the states of adamw_8bit have 8 bits",
                "write adamw for states of other types, or leave state_dtype out");
    if (optimizer_memory(optimizer).states == 0) {
      map.at_key("state_dtype")
          .fail(fmt::format("{} keeps no state", to_string(optimizer.kind)), "leave it out");
    }
    optimizer.state_element = Bytes(static_cast<double>(*bytes));
  }
  const auto master = of_optimizer().master_dtype.in(map);
  if (!master) return;
  optimizer.master_element = Bytes(static_cast<double>(*master));
  if (*optimizer.master_element > Bytes(0) && parameter_element(optimizer.of) == Bytes(4)) {
    map.at_key("master_dtype")
        .fail(
            fmt::format("the parameters of precision {} are fp32 already", to_string(optimizer.of)),
            "leave it out, or set model.precision: bf16_master");
  }
}

/// Adam on the host is one pass in the framework's own code.
bool is_fused_on_host(const Framework& framework, const Optimizer& optimizer) {
  const bool adam = optimizer.kind == OptimizerKind::adam || optimizer.kind == OptimizerKind::adamw;
  return optimizer.offloads() && adam && framework.find("optimizer.fused_on_host") == "true";
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

std::vector<Key> optimizer_keys() { return of_optimizer().below(); }

Optimizer read_optimizer_section(const Value& value, Framework& framework, Precision precision) {
  NamedOptions named = read_named_options(value, optimizer_names(), "an optimizer");
  Optimizer optimizer{.kind = parse_optimizer(named.name), .of = precision};
  const bool muon = optimizer.kind == OptimizerKind::muon;
  const OptimizerKeys& keys = of_optimizer();
  if (!muon) optimizer.offload = keys.offload.in(named.options).value_or(optimizer.offload);
  if (has_fused_option(optimizer.kind)) {
    Map& options = named.options;
    const bool asked = options.has("foreach");
    const bool on_host = is_fused_on_host(framework, optimizer);
    const bool lists = framework.find("optimizer.foreach") != "false";
    const bool by_lists = asked && of_optimizer().foreach.in(options, lists);
    const bool fused = (framework.flag("optimizer.fused") || on_host) && !by_lists;
    if (!asked && !options.has("fused") && !on_host) framework.note("optimizer.fused");
    optimizer.fused = of_optimizer().fused.in(options, fused);
    if (!asked && !optimizer.fused && !lists) framework.note("optimizer.foreach");
    if (asked || !optimizer.fused)
      optimizer.foreach = asked ? by_lists : of_optimizer().foreach.in(options, lists);
    if (asked && optimizer.fused && optimizer.foreach) {
      options.require("foreach").fail("an optimizer is either fused or foreach",
                                      "leave one of them out");
    }
  }
  read_formats(named.options, optimizer);
  if (!muon && optimizer_memory(optimizer).states > 0)
    optimizer.paged = keys.paged.in(named.options).value_or(optimizer.paged);
  if (optimizer.offloads() && optimizer.paged)
    named.options.at_key("paged").fail("states are either paged or the host's",
                                       "leave out paged or offload");
  if (!muon)
    optimizer.offload_overlap =
        keys.offload_overlap.in(named.options).value_or(optimizer.offload_overlap);
  if (!optimizer.offloads())
    optimizer.in_backward = keys.in_backward.in(named.options).value_or(optimizer.in_backward);
  optimizer.clip_grad = keys.clip_grad.in(named.options);
  optimizer.grad_scaler = keys.grad_scaler.in(named.options);
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

/// stage3.py swaps groups of states; stages 1 and 2 keep theirs in the host's memory
/// (deepspeed/runtime/zero/offload_config.py: nvme is stage 3's alone).
void check_nvme(const Value& value, const Scenario& scenario) {
  if (!is_stage3(scenario.strategy))
    value.fail("states on drives are known of DeepSpeed's stage 3 alone",
               "offload: cpu, or strategy: {zero: {stage: 3}}");
  for (const NodeGroup& group : scenario.cluster.groups)
    if (group.node.gpus > 0 && !group.node.nvme)
      value.fail(
          fmt::format("{} does not say how fast its nodes' drives are", scenario.cluster.name),
          "offload: cpu, or cluster.nvme: 25GBps (of a node written inline: nvme)");
}

void check_offload_overlap(const Value& value, const Scenario& scenario) {
  const Optimizer& optimizer = scenario.optimizer;
  if (optimizer.offload_overlap == OffloadOverlap::none) return;
  if (optimizer.offload != Offload::cpu)
    value.fail("nothing overlaps where the step is not the host's, in its memory",
               "offload_overlap: none, or offload: cpu");
  if (optimizer.overlaps_backward() && !steps_beside_backward(scenario.strategy))
    value.fail("a step beside backward is known of fsdp2 and of DeepSpeed's stage 3",
               "offload_overlap: copies, or strategy: {fsdp2: {}}");
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
  if (optimizer.offload == Offload::nvme) check_nvme(options.as_map().at_key("offload"), scenario);
  if (options.as_map().has("offload_overlap"))
    check_offload_overlap(options.as_map().at_key("offload_overlap"), scenario);
  if (optimizer.clips() && options.as_map().has("clip_grad"))
    check_clip_grad(options.as_map().at_key("clip_grad"), scenario);
  if (optimizer.scales() && options.as_map().has("grad_scaler"))
    check_grad_scaler(options.as_map().at_key("grad_scaler"), scenario);
}

}  // namespace rehearse::inline scenario
