#include "rollout/forward_pass.hpp"

#include <utility>
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

/// Only an update holds these: no forward pass reads them, and nobody wraps for a backward that
/// never comes.
bool is_of_updates(MemoryKind kind) {
  return kind == MemoryKind::gradients || kind == MemoryKind::optimizer_state ||
         kind == MemoryKind::buckets;
}

/// The memory of forward passes alone, where `program`'s operations that are not `needed` compute
/// nothing.
class ForwardMemory {
 public:
  ForwardMemory(Program& program, const std::vector<bool>& needed)
      : program_(program), needed_(needed), held_(program.tensors.size()) {}

  void keep() {
    std::erase_if(program_.setup,
                  [&](const TensorEvent& event) { return !plays(event, true, false); });
    // An iteration begins with what the one before ended with.
    for (const bool again : {false, true})
      for (std::size_t i = 0; i < program_.ops.size(); ++i) {
        std::vector<TensorEvent> kept;
        for (const TensorEvent& event : program_.ops[i].memory)
          if (plays(event, needed_[i], again)) kept.push_back(event);
        if (again) program_.ops[i].memory = std::move(kept);
      }
  }

 private:
  /// A tensor that a forward pass takes goes where it went, whoever's operation gave it back.
  bool plays(const TensorEvent& event, bool needed, bool again) {
    if (is_of_updates(program_.tensors[event.tensor.index()].kind)) return false;
    char& held = held_[event.tensor.index()];
    if (event.action == TensorEvent::Action::finish) return true;
    if (event.action != TensorEvent::Action::take) return std::exchange(held, 0) != 0;
    if (event.once && again) return needed;
    return needed && std::exchange(held, 1) == 0;
  }

  Program& program_;
  const std::vector<bool>& needed_;
  std::vector<char> held_;  ///< as Program::tensors
};

}  // namespace

Schedule forward_passes(Schedule training) {
  for (Program& program : training.programs) {
    const std::vector<bool> needed = needed_by_forward(program);
    for (std::size_t i = 0; i < program.ops.size(); ++i)
      if (!needed[i]) program.ops[i].work = Join{};
    ForwardMemory(program, needed).keep();
  }
  return training;
}

}  // namespace rehearse::inline rollout
