#include "strategy/unit_passes.hpp"

#include <algorithm>
#include <utility>

#include "model/recomputation.hpp"
#include "strategy/layout/stage_plan.hpp"

namespace rehearse::inline strategy {

OpId UnitPasses::unit_op(std::size_t unit, Verb pass, const PassCost& cost,
                         std::vector<After> after) {
  const auto launched =
      builder_.launch(pass, builder_.job().model.units[unit].name, cost.launch - cost.awaited);
  if (launched) after.push_back({*launched});
  if (cost.segments != nullptr && !cost.segments->exchanges.empty())
    return segments(unit, pass, cost, std::move(after));
  return compute(unit, pass, cost.time, cost.spread, std::move(after));
}

OpId UnitPasses::compute(std::size_t unit, Verb pass, Seconds time, double spread,
                         std::vector<After> after) {
  after.insert(after.end(), unawaited_.begin(), unawaited_.end());
  unawaited_.clear();
  return builder_.compute(unit, pass, time, spread, std::move(after));
}

/// True for the first unit, in a pipeline that of the chunk which is given a batch.
bool UnitPasses::reads_batch(std::size_t unit) const {
  if (builder_.job().stage == nullptr) return unit == 0;
  const std::vector<StagePlan::Part>& parts = builder_.job().stage->parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool given =
        i >= builder_.job().model.chunks.size() || builder_.job().model.chunks[i].input == 0;
    if (parts[i].first == unit && !parts[i].input && given) return true;
  }
  return false;
}

/// By workers beside all else, or by the host before it launches what needs it. Workers make the
/// next one as soon as one is taken that they made `ahead` iterations before.
void UnitPasses::load_batch(std::vector<After>& after) {
  const bool by_host = builder_.costs().loading->ahead == 0;
  if (!by_host && !loader_) loader_ = builder_.lane("data loader", LaneKind::host);
  builder_.add({.verb = Verb::load,
                .of = "batch",
                .phase = Phase::loading,
                .lane = by_host ? builder_.host_lane() : loader_,
                .work = Compute{.duration = builder_.costs().loading->each, .jittered = false}});
  const OpId loaded = builder_.last();
  after.push_back({loaded});
  if (by_host) return builder_.issued_behind(loaded);
  if (builder_.host_lane()) {
    builder_.block_host("batch", {{loaded}});
  } else {
    builder_.add({.verb = Verb::wait_for,
                  .of = "batch",
                  .phase = Phase::host,
                  .lane = builder_.compute_lane(),
                  .after = {{loaded}}});
  }
  const OpId taken = builder_.last();
  builder_[loaded].after.push_back({taken, builder_.costs().loading->ahead});
}

OpId UnitPasses::forward(std::size_t unit, std::vector<After> after) {
  if (offload_.moves(unit)) offload_.move_out(unit);
  if (builder_.costs().loading && reads_batch(unit)) load_batch(after);
  const UnitCost& cost = builder_.costs().units[unit];
  const OpId op = unit_op(unit, Verb::forward,
                          {cost.forward, cost.forward_launch, cost.forward_spread,
                           &cost.forward_segments, cost.awaited_launch},
                          std::move(after));
  if (offload_.moves(unit)) offload_.free_moved(op);
  builder_.tapes().note_forward(op, unit);
  return op;
}

namespace {

/// Forward's parts up to the last product, whose exchange is left out with it.
PassSegments needed_segments(const Unit& unit, const UnitCost& cost) {
  PassSegments parts = cost.forward_segments;
  Seconds left = cost.unneeded;
  for (auto part = parts.durations.rbegin(); part != parts.durations.rend(); ++part) {
    const Seconds taken = std::min(*part, left);
    *part -= taken;
    left -= taken;
  }
  const std::size_t end = rerun_operators(unit);
  std::erase_if(parts.exchanges, [&](const PassSegments::Placed& one) {
    const Exchange& exchange = unit.exchanges[one.exchange];
    return exchange.kind != ExchangeKind::all_gather && exchange.issued.before_operator >= end;
  });
  return parts;
}

}  // namespace

void UnitPasses::recompute(std::size_t unit, std::vector<After>& after) {
  if (!builder_.job().is_checkpointed(unit)) return;
  if (offload_.moves(unit)) offload_.move_in(unit, after);
  const UnitCost& cost = builder_.costs().units[unit];
  const bool stops = builder_.job().stops_early && cost.unneeded > Seconds(0);
  const PassSegments parts =
      stops ? needed_segments(builder_.job().model.units[unit], cost) : cost.forward_segments;
  const Seconds forward = stops ? cost.forward - cost.unneeded : cost.forward;
  const OpId again =
      unit_op(unit, Verb::recompute,
              {forward, cost.forward_launch, cost.forward_spread, &parts, cost.awaited_launch},
              std::move(after));
  builder_.tapes().note_recompute(again, unit);
  after.clear();
}

namespace {

/// Of a unit's backward, what makes gradients of parameters, by its products: each has one for its
/// input and one for its weight, and attention and what moves data have none of these.
double weight_share(const Unit& unit) {
  double all = 0, weights = 0;
  for (const Operator& one : unit.operators) {
    all += one.backward_flops;
    const bool has_weight = one.kind == OperatorKind::matmul && one.parameter_elements > 0;
    if (has_weight || one.kind == OperatorKind::convolution) weights += one.backward_flops / 2;
  }
  return all > 0 ? weights / all : 0.5;
}

}  // namespace

OpId UnitPasses::backward_input(std::size_t unit, std::vector<After> after) {
  recompute(unit, after);
  const UnitCost& cost = builder_.costs().units[unit];
  const double share = 1 - weight_share(builder_.job().model.units[unit]);
  PassSegments parts = cost.backward_segments;
  for (Seconds& duration : parts.durations) duration = share * duration;
  const OpId op =
      unit_op(unit, Verb::backward_input,
              {share * cost.backward, share * cost.backward_launch, cost.backward_spread, &parts},
              std::move(after));
  builder_.tapes().note_backward_input(op, unit);
  return op;
}

OpId UnitPasses::backward_weight(std::size_t unit, Gradients gradients, std::vector<After> after) {
  const UnitCost& cost = builder_.costs().units[unit];
  const double share = weight_share(builder_.job().model.units[unit]);
  const OpId op =
      unit_op(unit, Verb::backward_weight,
              {share * cost.backward, share * cost.backward_launch, cost.backward_spread},
              std::move(after));
  builder_.tapes().note_backward(op, unit, gradients, false);
  return op;
}

OpId UnitPasses::backward(std::size_t unit, Gradients gradients, std::vector<After> after) {
  recompute(unit, after);
  const UnitCost& cost = builder_.costs().units[unit];
  const OpId op =
      unit_op(unit, Verb::backward,
              {cost.backward, cost.backward_launch, cost.backward_spread, &cost.backward_segments},
              std::move(after));
  builder_.tapes().note_backward(op, unit, gradients, true);
  if (offload_.moves(unit)) offload_.end_moved(unit, op);
  return op;
}

}  // namespace rehearse::inline strategy
