#include "strategy/layout/stage_runner.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline strategy {
namespace {

bool ends_backward(PipelineAction::What what) {
  return what == PipelineAction::backward || what == PipelineAction::weight;
}

bool makes_gradients(PipelineAction::What what) {
  return what == PipelineAction::backward || what == PipelineAction::input;
}

}  // namespace

StageRunner::StageRunner(ProgramBuilder& builder, UnitPasses& passes, const StagePlan& plan)
    : builder_(builder),
      passes_(passes),
      plan_(plan),
      received_(plan.order.size()),
      computed_(plan.order.size()) {
  for (const StagePlan::Part& part : plan.parts) {
    lanes_.push_back({.input = message(part.input, "receive activations"),
                      .output = message(part.output, "send activations"),
                      .output_gradient = message(part.output_gradient, "receive gradients"),
                      .input_gradient = message(part.input_gradient, "send gradients")});
    slots_.emplace_back(static_cast<std::size_t>(plan.slots()));
  }
  find_ends();
  asks_ = plan.asks;
  if (asks_.empty())
    for (std::size_t action = 0; action < plan.order.size(); ++action)
      asks_.push_back({action, action - std::min(action, plan.receives_ahead)});
}

void StageRunner::find_ends() {
  first_.resize(plan_.order.size());
  last_.resize(plan_.order.size());
  std::vector<std::optional<std::size_t>> latest(plan_.parts.size());
  for (std::size_t i = 0; i < plan_.order.size(); ++i) {
    if (!ends_backward(plan_.order[i].what)) continue;
    auto& before = latest[plan_.order[i].chunk];
    first_[i] = !before;
    if (before) last_[*before] = false;
    last_[i] = true;
    before = i;
  }
}

/// A communicator's stream of its own for each neighbour and direction, as batches of sends and
/// receives need.
std::optional<StageRunner::Message> StageRunner::message(std::optional<std::size_t> group,
                                                         const char* name) {
  if (!group) return std::nullopt;
  const std::size_t part = lanes_.size();
  return Message{builder_.lane(part == 0 ? name : name + (" " + std::to_string(part + 1)),
                               LaneKind::communication),
                 *group};
}

const std::optional<StageRunner::Message>& StageRunner::received_by(std::size_t action) const {
  static const std::optional<Message> kNone;
  const Lanes& lanes = lanes_[plan_.order[action].chunk];
  if (plan_.order[action].what == PipelineAction::forward) return lanes.input;
  return makes_gradients(plan_.order[action].what) ? lanes.output_gradient : kNone;
}

/// A forward takes the first slot that is free, which its backward ends with.
void StageRunner::take_slot(const PipelineAction& action) {
  auto& slots = slots_[action.chunk];
  const auto slot = std::ranges::find(slots, std::optional<std::size_t>{});
  check(slot != slots.end(), "more micro-batches in flight than there are slots");
  *slot = action.micro;
}

void StageRunner::use_slot(const PipelineAction& action) {
  const auto& slots = slots_[action.chunk];
  const auto slot = std::ranges::find(slots, std::optional<std::size_t>{action.micro});
  check(slot != slots.end(), "a backward without a forward");
  builder_.tapes().use_slot(static_cast<std::size_t>(slot - slots.begin()));
}

OpId StageRunner::transfer(const Message& message, const char* what, Bytes size,
                           std::vector<After> after) {
  return builder_.collective(
      message.lane, what, {.kind = CollectiveKind::send_recv, .group = message.group, .size = size},
      std::move(after));
}

/// Asks for what an action needs, once the computation is over that it is asked for behind.
void StageRunner::post(const AskedInput& asked) {
  const std::size_t action = asked.action;
  if (plan_.order[action].what == PipelineAction::forward) take_slot(plan_.order[action]);
  const auto& from = received_by(action);
  if (!from) return;
  std::vector<After> after;
  if (const auto before = plan_.before(asked.behind)) after.push_back({computed_[*before]});
  const PipelineAction& what = plan_.order[action];
  const bool forward = what.what == PipelineAction::forward;
  const Bytes size = builder_.tapes().received_size(what.chunk, forward);
  received_[action] = transfer(*from, forward ? "activations" : "gradients", part_of(size), after);
}

/// What was received; of parts the whole, gathered no earlier than the computation needs it.
OpId StageRunner::whole(std::size_t action) {
  if (plan_.alike == 1) return *received_[action];
  const PipelineAction& what = plan_.order[action];
  const bool forward = what.what == PipelineAction::forward;
  return passes_.gather(forward ? "activations" : "gradients",
                        builder_.tapes().received_size(what.chunk, forward),
                        {{*received_[action]}});
}

std::vector<After> StageRunner::begin(std::size_t action) {
  for (; posted_ < asks_.size() && asks_[posted_].behind <= action; ++posted_) post(asks_[posted_]);
  const PipelineAction& what = plan_.order[action];
  use_slot(what);
  std::vector<After> after;
  if (received_[action]) after.push_back({whole(action)});
  if (what.what != PipelineAction::weight) {
    const auto last = plan_.before(action);
    const OpId before = last ? computed_[*last] : OpId(0);
    builder_.tapes().receive(what.chunk, what.what == PipelineAction::forward,
                             received_[action].value_or(before));
  }
  const bool second = action > 0 && plan_.is_beside_next(action - 1);
  if (second) return after;  // what the first sends holds up neither
  if (plan_.waits_for_sends) after.insert(after.end(), sending_.begin(), sending_.end());
  sending_.clear();
  return after;
}

void StageRunner::end(std::size_t action) {
  computed_[action] = *builder_.last_computed();
  const PipelineAction& what = plan_.order[action];
  const bool forward = what.what == PipelineAction::forward;
  const auto& to = forward ? lanes_[what.chunk].output : lanes_[what.chunk].input_gradient;
  if (to && what.what != PipelineAction::weight) {
    std::vector<After> after = passes_.unawaited();
    after.push_back({computed_[action]});
    const OpId sent =
        transfer(*to, forward ? "activations" : "gradients",
                 part_of(builder_.tapes().sent_size(what.chunk, forward)), std::move(after));
    builder_.tapes().sent(what.chunk, forward, sent);
    sending_.push_back({sent});
  } else if (what.what != PipelineAction::weight) {
    builder_.tapes().sent(what.chunk, forward, computed_[action]);
  }
  if (ends_backward(what.what) && !plan_.is_beside_next(action)) free_slot(what);
  if (action > 0 && plan_.is_beside_next(action - 1)) {
    const PipelineAction& first = plan_.order[action - 1];
    if (ends_backward(first.what)) free_slot(first);
  }
}

void StageRunner::free_slot(const PipelineAction& action) {
  std::ranges::replace(slots_[action.chunk], std::optional<std::size_t>{action.micro},
                       std::optional<std::size_t>{});
}

}  // namespace rehearse::inline strategy
