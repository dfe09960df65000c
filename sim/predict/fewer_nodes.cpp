#include "predict/fewer_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/number.hpp"
#include "predict/headline_run.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {
namespace {

/// Without a node of the largest group with GPUs, and without what is said of its ranks.
Scenario one_node_fewer(const Scenario& scenario) {
  Scenario fewer = scenario;
  NodeGroup* largest = nullptr;
  for (NodeGroup& group : fewer.cluster.groups) {
    const bool larger = largest == nullptr || group.nodes > largest->nodes;
    if (group.node.gpus > 0 && larger) largest = &group;
  }
  --largest->nodes;
  std::erase_if(fewer.run.stragglers,
                [&](const Straggler& one) { return one.rank >= fewer.cluster.gpu_count(); });
  return fewer;
}

bool can_shrink(const Scenario& scenario) {
  const bool asked =
      scenario.failures && scenario.failures->on_failure == OnFailure::continue_with_fewer;
  const bool star = std::holds_alternative<Star>(scenario.cluster.fabric) && !scenario.shared;
  return asked && star && std::ranges::any_of(scenario.cluster.groups, [](const NodeGroup& group) {
           return group.node.gpus > 0 && group.nodes > 1;
         });
}

double samples_per_s(const Scenario& scenario) {
  return simulated_headline(scenario, machine_of(scenario)).samples_per_s;
}

}  // namespace

FewerNodes::FewerNodes(const Scenario& scenario) {
  if (!can_shrink(scenario)) return;
  child_.emplace([&scenario]() -> std::string {
    try {
      return fmt::format("{:.17g}", samples_per_s(one_node_fewer(scenario)));
    } catch (const InputError&) {
      return "";  // a strategy whose groups do not fit
    }
  });
}

std::optional<double> FewerNodes::speed(const RunFacts& whole) {
  if (!child_) return std::nullopt;
  const std::optional<double> rate = decimal_number(child_->result());
  if (!rate) return std::nullopt;
  return std::min(1.0, *rate / headline(whole).samples_per_s);
}

}  // namespace rehearse::inline prediction
