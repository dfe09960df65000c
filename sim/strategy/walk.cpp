#include "strategy/walk.hpp"

#include <utility>

namespace rehearse::inline strategy {
namespace {

class Walk {
 public:
  Walk(const StagePlan& plan, ProgramBuilder& builder, Sync& sync)
      : plan_(plan), builder_(builder), sync_(sync), runner_(builder, plan) {}

  Program go() {
    sync_.setup();
    for (int step = 0; step < plan_.steps; ++step) {
      builder_.training_step(step, plan_.steps);
      runner_.restart();
      add_actions();
      sync_.step();
    }
    return builder_.finish();
  }

 private:
  void add_actions();
  void add_action(std::size_t action);
  void add_unit(std::size_t unit, const Pass& pass, std::vector<After>& after);
  Pass pass_of(std::size_t action) const;

  const StagePlan& plan_;
  ProgramBuilder& builder_;
  Sync& sync_;
  StageRunner runner_;
};

void Walk::add_actions() {
  for (std::size_t action = 0; action < plan_.order.size(); ++action) {
    if (!plan_.is_beside_next(action)) {
      add_action(action);
      continue;
    }
    ProgramBuilder::Fork fork = builder_.fork();
    add_action(action);
    builder_.second_of(fork);
    add_action(++action);
    builder_.join(fork);
  }
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
      const OpId op = builder_.forward(unit, std::move(behind));
      return sync_.after_forward(unit, op, pass);
    }
    case PipelineAction::input:
      builder_.backward_input(unit, std::move(behind));
      return;
    case PipelineAction::backward: {
      const OpId op = builder_.backward(unit, sync_.gradients(pass), std::move(behind));
      return sync_.after_backward(unit, op, pass);
    }
    case PipelineAction::weight: {
      const OpId op = builder_.backward_weight(unit, sync_.gradients(pass), std::move(behind));
      return sync_.after_backward(unit, op, pass);
    }
  }
}

}  // namespace

Program walk(const StagePlan& plan, ProgramBuilder& builder, Sync& sync) {
  return Walk(plan, builder, sync).go();
}

}  // namespace rehearse::inline strategy
