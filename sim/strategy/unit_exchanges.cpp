// What the ranks of a layout exchange inside a unit's pass, between the parts that it computes.
#include <utility>

#include "base/error.hpp"
#include "model/parallel.hpp"
#include "strategy/layout/stage_plan.hpp"
#include "strategy/unit_passes.hpp"

namespace rehearse::inline strategy {
namespace {

CollectiveKind kind_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::all_reduce:
      return CollectiveKind::all_reduce;
    case ExchangeKind::all_gather:
    case ExchangeKind::send_recv:
      return CollectiveKind::all_gather;
    case ExchangeKind::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case ExchangeKind::all_to_all:
      return CollectiveKind::all_to_all;
  }
  throw InternalError("internal error: an exchange that no collective is");
}

const char* name_of(ExchangeAxis axis) {
  switch (axis) {
    case ExchangeAxis::tensor:
      return "tensor";
    case ExchangeAxis::context:
      return "context";
    case ExchangeAxis::expert:
      return "experts";
    case ExchangeAxis::expert_tensor:
      return "expert tensor";
    case ExchangeAxis::expert_node:
      return "experts, inside";
    case ExchangeAxis::expert_across:
      return "experts, across";
    case ExchangeAxis::embedding:
      return "embeddings";
  }
  throw InternalError("internal error: an axis without a name");
}

bool is_of_experts(ExchangeAxis axis) {
  return axis != ExchangeAxis::tensor && axis != ExchangeAxis::context &&
         axis != ExchangeAxis::embedding;
}

}  // namespace

/// A pass between its exchanges. Parts that take no time are left out, but for the last: it is what
/// comes later refers to, and where memory is noted. Where the host launches experts once it knows
/// how many tokens they get, it waits for the first of their exchanges, and launches the rest
/// behind the tokens' own: what comes behind the unit waits for that.
OpId UnitPasses::segments(std::size_t unit, Verb pass, const PassCost& cost,
                          std::vector<After> after) {
  const PassSegments& parts = *cost.segments;
  std::vector<std::pair<std::size_t, OpId>> waiting;  // part that waits, and the exchange
  std::size_t next = 0;
  bool counted = cost.awaited == Seconds(0), launched = counted;
  const auto launch_rest = [&] {
    if (!std::exchange(launched, true))
      builder_.launch(pass, builder_.job().model.units[unit].name, cost.awaited);
  };
  for (std::size_t part = 0; part < parts.durations.size(); ++part) {
    std::vector<std::pair<std::uint8_t, OpId>> here;  // by turn
    bool sent = false;
    for (; next < parts.exchanges.size() && parts.exchanges[next].issued <= part; ++next) {
      const PassSegments::Placed& placed = parts.exchanges[next];
      const Exchange& what = builder_.job().model.units[unit].exchanges[placed.exchange];
      const OpId op = exchange(what, unit, pass);
      std::vector<After>& own = builder_[op].after;
      own.insert(own.end(), after.begin(), after.end());
      for (const auto& [turn, before] : here)
        if (turn < what.turn) own.push_back({before});
      here.emplace_back(what.turn, op);
      waiting.emplace_back(placed.awaited, op);
      if (!is_of_experts(what.axis)) continue;
      if (std::exchange(counted, true))
        sent = true;
      else
        builder_.block_host("tokens of experts", {{op}});
    }
    if (sent) launch_rest();
    for (const auto& [awaited, op] : waiting)
      if (awaited == part) unawaited_.push_back({op});
    const bool last_part = part + 1 == parts.durations.size();
    if (parts.durations[part] <= Seconds(0) && !last_part) continue;
    compute(unit, pass, parts.durations[part], cost.spread, std::exchange(after, {}));
  }
  launch_rest();
  return *builder_.last_computed();
}

/// What passes on to the next of a ring of n ranks is what a step of their all_gather carries: of
/// n/(n-1) as much.
OpId UnitPasses::exchange(const Exchange& what, std::size_t unit, Verb pass) {
  const StagePlan& plan = *builder_.job().stage;
  const auto slot = plan.exchange_groups.find(what.axis);
  check(slot != plan.exchange_groups.end(), "an exchange of a rank that has no group for it");
  const Bytes element = what.wide     ? Bytes(4)
                        : what.float8 ? Bytes(1)
                        : what.narrow && is_narrow(builder_.computes())
                            ? narrow_element(builder_.computes())
                            : activation_element(builder_.computes());
  double elements = what.elements * static_cast<double>(builder_.job().batch_per_gpu);
  if (what.kind == ExchangeKind::send_recv) {
    const auto ranks = static_cast<double>(plan.contexts);
    elements *= ranks / (ranks - 1);
  }
  std::vector<After> after = unawaited_;
  if (const auto before = builder_.last_computed()) after.push_back({*before});
  const double beside = what.wide_beside * static_cast<double>(builder_.job().batch_per_gpu);
  Collective sent{.kind = kind_of(what.kind),
                  .group = slot->second,
                  .size = elements * element + beside * Bytes(4)};
  if (is_of_experts(what.axis)) sent.multiprocessors = plan.dispatch_sms;
  const OpId op = builder_.collective(
      exchange_lane(what.axis), builder_.job().model.units[unit].name, sent, std::move(after));
  builder_[op].pass = pass;
  return op;
}

LaneId UnitPasses::exchange_lane(ExchangeAxis axis) {
  if (!exchange_lanes_.contains(axis))
    exchange_lanes_[axis] =
        builder_.lane(std::string("nccl (") + name_of(axis) + ")", LaneKind::communication);
  return exchange_lanes_.at(axis);
}

OpId UnitPasses::gather(const std::string& what, Bytes size, std::vector<After> after) {
  const auto slot = builder_.job().stage->exchange_groups.find(ExchangeAxis::tensor);
  check(slot != builder_.job().stage->exchange_groups.end(), "parts of ranks that share nothing");
  return builder_.collective(
      exchange_lane(ExchangeAxis::tensor), what,
      {.kind = CollectiveKind::all_gather, .group = slot->second, .size = size}, std::move(after));
}

std::vector<LaneId> UnitPasses::expert_lanes() const {
  std::vector<LaneId> lanes;
  for (const ExchangeAxis axis :
       {ExchangeAxis::expert, ExchangeAxis::expert_node, ExchangeAxis::expert_across})
    if (exchange_lanes_.contains(axis)) lanes.push_back(exchange_lanes_.at(axis));
  return lanes;
}

}  // namespace rehearse::inline strategy
