#include <fmt/format.h>

#include <algorithm>

#include "cost/whole_step.hpp"
#include "scenario/sections.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {

void check_whole_step(const Value& model, const Scenario& scenario) {
  const NodeGroup* first = nullptr;
  const Value place = model.as_map().at_key("measured");
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus == 0) continue;
    if (first == nullptr) first = &group;
    if (group.node.gpu.name == first->node.gpu.name) continue;
    place.fail(fmt::format("measured on which GPU? The cluster has {} and {}", first->node.gpu.name,
                           group.node.gpu.name),
               "take a cluster of one kind of GPU, or leave it out");
  }
  const WholeStep& measured = *scenario.whole_step;
  const auto asked = asked_of_peak(measured, scenario.model, first->node.gpu, scenario.precision,
                                   scenario.checkpointed);
  if (!asked || asked->least <= asked->peak) return;
  place.fail(
      fmt::format("{:.6g} samples/s of {} on {} {} are {} a GPU, {:.0f} % of its {} peak of {}",
                  measured.samples_per_s, scenario.model.name, measured.gpus, first->node.gpu.name,
                  format(asked->asked), 100 * (asked->asked / asked->peak),
                  to_string(scenario.precision), format(asked->peak)),
      "check model, sequence or image, precision and GPU, and of how many GPUs the figure is: "
      "`gpus: 8`");
}

void settle_whole_step(Scenario& scenario) {
  WholeStep& step = *scenario.whole_step;
  if (step.gpus == 0)
    scenario.assumptions.push_back(
        fmt::format("model.measured.gpus = {}, the cluster's", scenario.cluster.gpu_count()));
  step = settled(step, static_cast<std::int64_t>(scenario.cluster.gpu_count()));
}

void check_whole_step_fits(const Value& model, const Scenario& scenario) {
  const Strategy& strategy = scenario.strategy;
  const auto fsdp = sharded_in(strategy);
  if (scenario.adaptation || (fsdp && fsdp->cpu_offload)) return;
  const auto trains = [](const NodeGroup& group) { return group.node.gpus > 0; };
  const Gpu& gpu = std::ranges::find_if(scenario.cluster.groups, trains)->node.gpu;
  const bool whole = !strategy.layout && is_replicated(strategy);
  const double sharers = whole ? 1 : static_cast<double>(scenario.whole_step->gpus);
  const Bytes weights =
      static_cast<double>(scenario.model.parameters()) * parameter_element(scenario.precision);
  const Bytes kept =
      scenario.optimizer.offloads() ? Bytes(0) : kept_of(scenario.optimizer, scenario.model);
  if (gpu.memory == Bytes(0) || weights + kept <= gpu.memory * sharers) return;
  const std::string have = whole ? fmt::format("a {} has {}", gpu.name, format(gpu.memory))
                                 : fmt::format("{} {} have {}", scenario.whole_step->gpus, gpu.name,
                                               format(gpu.memory * sharers));
  model.as_map()
      .at_key("measured")
      .fail(fmt::format("the weights of {} and what {} keeps of them take {}, and {}",
                        scenario.model.name, to_string(scenario.optimizer.kind),
                        format(weights + kept), have),
            whole ? "ddp keeps all of it on each GPU: check model, strategy and GPU"
                  : "say of how many GPUs the figure is, as `gpus: 32`; without it, of the "
                    "cluster's");
}

bool has_given_times(const Model& model) {
  return std::ranges::any_of(model.units,
                             [](const Unit& unit) { return unit.forward.has_value(); });
}

void check_given_times(const Value& model, const Value& cluster) {
  Map map = model.as_map();
  const std::string written = map.require("units").file();
  const auto refuse = [&](Map& section, const char* key) {
    if (!section.has(key) || section.require(key).file() == written) return;
    section.require(key).fail(
        "the times of model.units hold for the batch, precision and GPU of their own file",
        "say what they were measured at, for example `measured_at: {batch_per_gpu: 4, gpu: A10G}` "
        "in the model, and they are scaled");
  };
  for (const char* key : {"batch_per_gpu", "precision"}) refuse(map, key);
  if (!cluster.is_map()) return;
  Map machines = cluster.as_map();
  refuse(machines, "use");
  if (!machines.has("node") || !machines.require("node").is_map()) return;
  Map node = machines.require("node").as_map();
  refuse(node, "gpu");
}

}  // namespace rehearse::inline scenario
