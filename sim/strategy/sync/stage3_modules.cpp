#include "strategy/sync/stage3_modules.hpp"

#include <algorithm>

namespace rehearse::inline strategy {
namespace {

/// Operators that take the host as long as the hooks around one module, forward or backward. On a
/// CPU, with modules so narrow that the host bounds them (DeepSpeed 0.19.8, torch 2.13, one rank),
/// they took 258 to 358 us for GPT-2 and Llama. That is 12 operators of the same run, and 31 where
/// FSDP2's hooks of that run stand for 50 (fsdp_overhead.cpp): their geometric mean.
constexpr double kModuleHooks = 19;

/// Modules with parameters of their own, whatever their size: hooks stand at those, too, whose
/// parameters stay whole. A bias, which takes no pass of its own forward, is its product's. A unit
/// without operators is one.
double modules_with_parameters(const Unit& unit) {
  const auto count = std::ranges::count_if(unit.operators, [](const Operator& one) {
    const bool is_bias = one.kind == OperatorKind::elementwise && one.forward_elements == 0;
    return one.parameter_elements > 0 && !is_bias;
  });
  return count > 0 ? static_cast<double>(count) : 1;
}

/// Of a unit whose operators say whose parameters are whose; else it is one module. Parameters up
/// to the threshold stay whole, and what computes with them goes with the module in front.
std::vector<PartitionedModule> modules_of(const Unit& unit, std::size_t index,
                                          std::int64_t threshold) {
  double sum = 0;
  for (const Operator& one : unit.operators) sum += one.parameter_elements;
  const auto all = static_cast<double>(unit.parameters());
  std::vector<PartitionedModule> modules;
  PartitionedModule before;
  for (const Operator& one : unit.operators) {
    const auto elements = static_cast<std::int64_t>(one.parameter_elements);
    if (sum == all && elements > threshold)
      modules.push_back(
          {.unit = index, .elements = elements, .trained = one.frozen ? 0 : elements});
    PartitionedModule& now = modules.empty() ? before : modules.back();
    now.forward_flops += one.forward_flops;
    now.backward_flops += one.backward_flops;
  }
  if (sum != all && unit.parameters() > threshold)
    modules = {
        {.unit = index, .elements = unit.parameters(), .trained = unit.trainable_parameters()}};
  if (!modules.empty()) {
    modules.front().forward_flops += before.forward_flops;
    modules.front().backward_flops += before.backward_flops;
  }
  return modules;
}

}  // namespace

Stage3Modules::Stage3Modules(const DeepspeedZero3& options, const Job& job, const StepCosts& given)
    : costs(given) {
  std::vector<std::int64_t> elements;
  const std::size_t units = job.model.units.size();
  for (std::size_t unit = 0; unit < units; ++unit) {
    const Unit& of = job.model.units[unit];
    const auto found = modules_of(of, unit, options.param_persistence_threshold);
    of_unit.emplace_back(all.size(), all.size() + found.size());
    all.insert(all.end(), found.begin(), found.end());
    persistent += of.parameters();
    for (const PartitionedModule& one : found) {
      persistent -= one.elements;
      elements.push_back(one.elements);
    }
    split_costs(of, unit, options, job.is_checkpointed(unit));
  }
  std::vector<std::size_t> order;
  for (std::size_t module = 0; module < all.size(); ++module) order.push_back(module);
  for (std::size_t unit = units; unit-- > 0;) {
    const auto [first, end] = of_unit[unit];
    if (job.is_checkpointed(unit))
      for (std::size_t module = first; module < end; ++module) order.push_back(module);
    for (std::size_t module = end; module-- > first;) order.push_back(module);
  }
  uses = stage3_uses(elements, order, options);
}

void Stage3Modules::split_costs(const Unit& of, std::size_t unit, const DeepspeedZero3& options,
                                bool checkpointed) {
  const auto [first, end] = of_unit[unit];
  UnitCost& cost = costs.units[unit];
  const Seconds hooks = modules_with_parameters(of) *
                        options.module_hook.value_or(kModuleHooks * costs.host_operator);
  cost.forward_launch += hooks;
  cost.backward_launch += hooks;
  whole.emplace_back(cost.forward, cost.backward);
  if (end - first < 2) return;
  // A recomputed forward is played whole.
  if (!checkpointed) cost.forward *= share(first, false);
  cost.backward *= share(end - 1, true);
}

double Stage3Modules::share(std::size_t module, bool backward) const {
  const auto [first, end] = of_unit[all[module].unit];
  double sum = 0;
  for (std::size_t other = first; other < end; ++other) sum += weight(other, backward);
  return weight(module, backward) / sum;
}

double Stage3Modules::weight(std::size_t module, bool backward) const {
  const PartitionedModule& one = all[module];
  const double flops = backward ? one.backward_flops : one.forward_flops;
  return flops > 0 ? flops : static_cast<double>(one.elements) * 1e-9;
}

}  // namespace rehearse::inline strategy
