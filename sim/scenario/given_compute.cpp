#include <fmt/format.h>

#include <algorithm>

#include "cost/whole_step.hpp"
#include "scenario/sections.hpp"

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
      "check model, sequence or image, precision and GPU; of several GPUs' figure say how many: "
      "`gpus: 8`");
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
