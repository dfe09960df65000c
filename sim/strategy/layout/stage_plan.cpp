#include "strategy/layout/stage_plan.hpp"

#include <algorithm>

namespace rehearse::inline strategy {
StagePlan StagePlan::alone(const Model& model, int micro_batches) {
  StagePlan plan{.parts = {}, .order = {}, .stage_alone = true, .micro_batches = micro_batches};
  plan.parts = {{.first = 0, .end = model.units.size()}};
  for (int micro = 0; micro < micro_batches; ++micro)
    for (const PipelineAction::What what : {PipelineAction::forward, PipelineAction::backward})
      plan.order.push_back({what, 0, static_cast<std::uint16_t>(micro)});
  return plan;
}

int StagePlan::most_in_flight() const {
  int most = 1;
  for (std::size_t part = 0; part < parts.size(); ++part)
    most = std::max(most, rehearse::most_in_flight(order, static_cast<int>(part)));
  return most;
}

bool StagePlan::pipelined() const {
  return std::ranges::any_of(
      parts, [](const Part& part) { return part.input || part.output || part.output_gradient; });
}

/// Of two that run beside each other, a backward keeps its tensors until the forward has ended.
int StagePlan::slots() const {
  const int held = beside_next.empty() ? 0 : 1;
  return stage_alone ? 1 : most_in_flight() + most_asked_ahead() + held;
}

int StagePlan::most_asked_ahead() const {
  if (asks.empty()) return static_cast<int>(receives_ahead);
  std::vector<int> ahead(parts.size()), most(parts.size());
  std::size_t asked = 0;
  for (std::size_t action = 0; action < order.size(); ++action) {
    for (; asked < asks.size() && asks[asked].behind <= action; ++asked) {
      const PipelineAction& what = order[asks[asked].action];
      if (what.what != PipelineAction::forward) continue;
      ++ahead[what.chunk];
      most[what.chunk] = std::max(most[what.chunk], ahead[what.chunk]);
    }
    if (order[action].what == PipelineAction::forward) --ahead[order[action].chunk];
  }
  return *std::ranges::max_element(most);
}

std::optional<std::size_t> StagePlan::before(std::size_t action) const {
  if (action > 0 && is_beside_next(action - 1)) --action;
  if (action == 0) return std::nullopt;
  return action - 1;
}

}  // namespace rehearse::inline strategy
