#include "strategy/walk.hpp"

#include <utility>

#include "strategy/layout/stage_runner.hpp"
#include "strategy/side_by_side.hpp"
#include "strategy/unit_passes.hpp"

namespace rehearse::inline strategy {
namespace {

class Walk {
 public:
  Walk(const StagePlan& plan, ProgramBuilder& builder, Sync& sync)
      : plan_(plan),
        builder_(builder),
        sync_(sync),
        passes_(builder),
        runner_(builder, passes_, plan) {}

  Program go() {
    sync_.setup();
    for (int step = 0; step < plan_.steps; ++step) {
      builder_.training_step(step, plan_.steps);
      runner_.restart();
      add_actions();
      sync_.step();
    }
    interleave(builder_.program, beside_, passes_.expert_lanes());
    return std::move(builder_.program);
  }

 private:
  void add_actions();
  void add_action(std::size_t action);
  void add_beside(std::size_t action);
  void add_unit(std::size_t unit, const Pass& pass, std::vector<After>& after);
  Pass pass_of(std::size_t action) const;

  const StagePlan& plan_;
  ProgramBuilder& builder_;
  Sync& sync_;
  UnitPasses passes_;
  StageRunner runner_;
  std::vector<SideBySide> beside_;
};

void Walk::add_actions() {
  for (std::size_t action = 0; action < plan_.order.size(); ++action) {
    if (!plan_.is_beside_next(action)) {
      add_action(action);
      continue;
    }
    add_beside(action);
    ++action;
  }
}

/// An action and the next one: both begin behind the same, and take turns once all is written.
void Walk::add_beside(std::size_t action) {
  const ProgramBuilder::Position begun = builder_.position();
  const std::vector<After> unawaited = passes_.unawaited();
  SideBySide pair{.first = builder_.program.ops.size()};
  add_action(action);
  pair.second = builder_.program.ops.size();
  const std::vector<After> of_first = passes_.unawaited();
  passes_.set_unawaited(unawaited);
  builder_.go_back(begun);
  add_action(action + 1);
  pair.end = builder_.program.ops.size();
  std::vector<After> of_both = passes_.unawaited();
  of_both.insert(of_both.end(), of_first.begin(), of_first.end());
  passes_.set_unawaited(std::move(of_both));
  beside_.push_back(pair);
}

Pass Walk::pass_of(std::size_t action) const {
  const PipelineAction& what = plan_.order[action];
  return {.what = what.what,
          .part = what.chunk,
          .micro = what.micro,
          .first = runner_.is_first_backward(action),
          .last = runner_.is_last_backward(action)};
}

void Walk::add_action(std::size_t action) {
  const Pass pass = pass_of(action);
  const StagePlan::Part& part = plan_.parts[pass.part];
  if (plan_.stage_alone) builder_.micro_batch(pass.micro, plan_.micro_batches);
  std::vector<After> after = runner_.begin(action);
  if (pass.what == PipelineAction::forward) {
    for (std::size_t unit = part.first; unit < part.end; ++unit) add_unit(unit, pass, after);
  } else {
    for (std::size_t unit = part.end; unit-- > part.first;) add_unit(unit, pass, after);
  }
  sync_.after_pass(pass);
  runner_.end(action);
}

/// `after`: what the pass begins behind, of which nothing is left for its next unit.
void Walk::add_unit(std::size_t unit, const Pass& pass, std::vector<After>& after) {
  const bool forward = pass.what == PipelineAction::forward;
  const std::vector<After> own =
      forward ? sync_.before_forward(unit, pass) : sync_.before_backward(unit, pass);
  std::vector<After> behind = std::exchange(after, {});
  behind.insert(behind.end(), own.begin(), own.end());
  switch (pass.what) {
    case PipelineAction::forward: {
      const OpId op = passes_.forward(unit, std::move(behind));
      return sync_.after_forward(unit, op, pass);
    }
    case PipelineAction::input:
      passes_.backward_input(unit, std::move(behind));
      return;
    case PipelineAction::backward: {
      const OpId op = passes_.backward(unit, sync_.gradients(pass), std::move(behind));
      return sync_.after_backward(unit, op, pass);
    }
    case PipelineAction::weight: {
      const OpId op = passes_.backward_weight(unit, sync_.gradients(pass), std::move(behind));
      return sync_.after_backward(unit, op, pass);
    }
  }
}

}  // namespace

Program walk(const StagePlan& plan, ProgramBuilder& builder, Sync& sync) {
  return Walk(plan, builder, sync).go();
}

}  // namespace rehearse::inline strategy
