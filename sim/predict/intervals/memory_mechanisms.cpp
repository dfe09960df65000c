#include "predict/intervals/memory_mechanisms.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "predict/intervals/interval_errors.hpp"
#include "predict/intervals/interval_facts.hpp"
#include "report/work.hpp"

namespace rehearse::inline prediction {
namespace {

/// Bytes by mechanism.
using Parts = std::map<std::string, Bytes>;

/// Rounding, and what libraries keep, where all sizes are known. A guess.
constexpr double kStatedSizes = 0.02;

bool has_quantized_weights(const Model& model) {
  return std::ranges::any_of(model.units, [](const Unit& unit) {
    return std::ranges::any_of(unit.traits, &ParameterTrait::quantized);
  });
}

/// Ranks of a layout hold parts of layers and of tokens, which frameworks cut in their own ways.
bool shares_layers(const Scenario& scenario) {
  const Mesh mesh = mesh_of(scenario.strategy);
  return mesh.pipeline * mesh.tensor * mesh.context * mesh.expert > 1;
}

std::string part_of(MemoryKind kind, const Scenario& scenario) {
  const Model& model = scenario.model;
  switch (kind) {
    case MemoryKind::parameters:
      return has_quantized_weights(model) ? "quantized parameters" : "parameters";
    case MemoryKind::gradients:
    case MemoryKind::optimizer_state:
      return "gradients and optimizer states";
    case MemoryKind::activations:
    case MemoryKind::workspace:
      if (shares_layers(scenario)) return "activations of layers that ranks share";
      if (trains_adapters(model)) return "activations beside adapters";
      if (model.compile != Compile::none) return "activations of compiled code";
      return kind == MemoryKind::workspace ? "temporaries" : "activations";
    case MemoryKind::buckets:
    case MemoryKind::gathered:
    case MemoryKind::communication:
      break;
  }
  return "copies that travel";
}

void add(const Parts& parts, IntervalOf what, Bytes whole, std::vector<Mechanism>& mechanisms) {
  for (const auto& [name, size] : parts)
    if (size > Bytes(0))
      mechanisms.push_back(
          {.name = name, .share = size / whole, .error = interval_error(what, name)});
  std::ranges::stable_sort(mechanisms, std::ranges::greater{}, &Mechanism::width);
}

std::vector<Mechanism> stated(double share) {
  return {{.name = "stated sizes", .share = share, .error = kStatedSizes}};
}

}  // namespace

MemoryMechanisms memory_mechanisms(const Scenario& scenario, const std::vector<StepCosts>& costs,
                                   const MemoryReport& memory) {
  const Bytes peak = memory.allocated_peak, used = memory.used();
  if (peak <= Bytes(0)) return {};
  if (!is_computed(costs)) return {.allocated = stated(1), .used = stated(peak / used)};
  Parts parts = {
      {shares_layers(scenario) ? "this layout's memory" : "this software's memory", peak}};
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    parts[part_of(static_cast<MemoryKind>(kind), scenario)] += memory.at_peak.by_kind[kind];
  MemoryMechanisms mechanisms;
  add(parts, IntervalOf::allocated, peak, mechanisms.allocated);
  add(parts, IntervalOf::allocated, used, mechanisms.used);
  add({{"what the allocator keeps", memory.fragmentation()},
       {"contexts and communicators", memory.context + memory.communicators},
       {"all that a GPU holds", used}},
      IntervalOf::used, used, mechanisms.used);
  return mechanisms;
}

}  // namespace rehearse::inline prediction
