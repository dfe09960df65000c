#include "rollout/forward_pass.hpp"

#include <vector>

namespace rehearse::inline rollout {
namespace {

bool computes_forward(const Op& op) {
  return op.phase == Phase::forward && op.verb != Verb::recompute &&
         std::holds_alternative<Compute>(op.work);
}

/// Between stages, which wait for each other's alone.
bool passes_activations(const Op& op) {
  return op.of == "activations" && std::holds_alternative<Collective>(op.work);
}

/// Computation of another phase, on whichever lane.
bool is_other_work(const Op& op) {
  if (op.of == "gradients" && std::holds_alternative<Collective>(op.work)) return true;
  return op.phase == Phase::backward || op.phase == Phase::optimizer ||
         op.verb == Verb::recompute || op.pass == Verb::backward || op.pass == Verb::recompute ||
         op.pass == Verb::optimizer;
}

/// What forward computations come after, in the same iteration, but for other phases' work.
std::vector<bool> needed_by_forward(const Program& program) {
  std::vector<bool> needed(program.ops.size());
  std::vector<std::size_t> open;
  const auto need = [&](std::size_t op) {
    if (needed[op] || is_other_work(program.ops[op])) return;
    needed[op] = true;
    open.push_back(op);
  };
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (computes_forward(program.ops[i]) || passes_activations(program.ops[i])) need(i);
  while (!open.empty()) {
    const std::size_t op = open.back();
    open.pop_back();
    for (const After& after : program.ops[op].after)
      if (after.distance == 0) need(after.op.index());
  }
  return needed;
}

}  // namespace

Schedule forward_passes(Schedule training) {
  for (Program& program : training.programs) {
    const std::vector<bool> needed = needed_by_forward(program);
    for (std::size_t i = 0; i < program.ops.size(); ++i)
      if (!needed[i]) program.ops[i].work = Join{};
  }
  return training;
}

}  // namespace rehearse::inline rollout
