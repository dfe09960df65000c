// What an optimizer takes: its states, and the temporaries of a step.
#include <algorithm>
#include <array>
#include <cmath>

#include "strategy/optimizer_step.hpp"

namespace rehearse::inline strategy {
namespace {

/// Rows and columns of a matrix that is square.
std::int64_t factors(std::int64_t elements) {
  return static_cast<std::int64_t>(2 * std::sqrt(static_cast<double>(elements)));
}

/// _single_tensor_muon of torch/optim/_muon.py: the update, its copy in bf16 where it is wider, and
/// in each step X X^T, a polynomial of that, and the next X, each beside the one before.
void orthogonalize(ProgramBuilder& builder, OpId op, const Trained& one, Bytes element) {
  const MatrixShape& shape = *one.matrix;
  const auto least = static_cast<double>(std::min(shape.rows, shape.columns));
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  constexpr Bytes kHalf(2);
  const auto temporary = [&](Bytes size) {
    return builder.tensor(MemoryKind::workspace, size, one.owner);
  };
  const TensorId update = temporary(elements * element);
  std::array<TensorId, 2> products{}, sums{}, next{};
  for (std::size_t i = 0; i < 2; ++i) {
    products[i] = temporary(least * least * kHalf);
    sums[i] = temporary(least * least * kHalf);
    next[i] = temporary(elements * kHalf);
  }
  builder.take(op, update);
  if (element > kHalf) builder.take(op, next[1]);
  for (std::size_t step = 0; step < kNewtonSchulzSteps; ++step) {
    const std::size_t now = step % 2, before = 1 - now;
    for (const auto& pair : {products, sums}) {
      builder.take(op, pair[now]);
      if (step > 0) builder.give(op, pair[before]);
    }
    builder.take(op, next[now]);
    if (step > 0 || element > kHalf) builder.give(op, next[before]);
  }
  const std::size_t last = (kNewtonSchulzSteps - 1) % 2;
  for (const TensorId id : {products[last], sums[last], update, next[last]}) builder.give(op, id);
}

}  // namespace

/// Muon's ranks own whole matrices, in turn: of these the first rank's, which has the most.
std::vector<Trained> trained(const Job& job, const Shards& shards) {
  std::vector<Trained> all;
  std::int64_t matrices = 0;
  for (std::uint32_t number = 0; number < job.model.units.size(); ++number) {
    const Unit& unit = job.model.units[number];
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      if (!unit.trait(i).trained) continue;
      const std::int64_t ranks = unit.is_of_experts(i) ? shards.experts : shards.all;
      const bool owned = job.optimizer.kind == OptimizerKind::muon && ranks > 1 &&
                         hidden_matrix(unit, i).has_value();
      if (owned) {
        if (matrices++ % ranks == 0) all.push_back(trained(job, number, i, 1));
        continue;
      }
      all.push_back(trained(job, number, i, ranks));
    }
  }
  return all;
}

Trained trained(const Job& job, std::uint32_t unit, std::size_t tensor, std::int64_t ranks) {
  const Unit& of = job.model.units[unit];
  Trained one{(of.tensors[tensor] + ranks - 1) / ranks, unit, of.trait(tensor).storage};
  if (job.optimizer.kind == OptimizerKind::muon && ranks == 1)
    one.matrix = hidden_matrix(of, tensor);
  return one;
}

void update(ProgramBuilder& builder, OpId op, const std::vector<Trained>& tensors,
            const WideGradients& wide) {
  builder.tapes().host_waits(op);  // for the norm of gradients
  const auto memory_of = [&](const Trained& one) {
    OptimizerMemory memory =
        optimizer_memory(on_tensor(on_storage(builder.job().optimizer, one.storage), one.matrix));
    if (wide.are_there) memory.gradient_element = Bytes(0);
    return memory;
  };
  if (builder.job().optimizer.offloads()) return;
  const bool foreach = builder.job().optimizer.foreach && builder.job().device == TapeDevice::cuda;
  const auto of = [&](MemoryKind kind, const Trained& one, Bytes element) {
    return builder.tensor(kind, element * static_cast<double>(one.elements), one.owner);
  };
  const auto keep = [&](const Trained& one, Bytes element) {
    builder.note(op,
                 {of(MemoryKind::optimizer_state, one, element), TensorEvent::Action::take, true});
  };
  for (const Trained& one : tensors) {
    const OptimizerMemory memory = memory_of(one);
    if (memory.master_element > Bytes(0)) keep(one, memory.master_element);
    if (memory.factored) keep({.elements = factors(one.elements), .owner = one.owner}, Bytes(4));
    if (builder.job().optimizer.paged) continue;
    for (int i = 0; i < memory.states; ++i) keep(one, memory.state_element);
  }
  for (const Trained& one : tensors)
    if (const OptimizerMemory memory = memory_of(one);
        memory.orthogonalizes && memory.gradient_element == Bytes(0))
      orthogonalize(builder, op, one, memory.temporary_element);
  std::vector<TensorId> temporaries;
  std::vector<std::vector<TensorId>> one_by_one;  // beside the gradients' copies, if there are any
  std::vector<const Trained*> matrices;
  const auto is_gradient = [&](TensorId id) {
    return builder.program.tensors[id.index()].kind == MemoryKind::gradients;
  };
  const auto use = [&] {
    auto rest = temporaries.begin();
    if (!matrices.empty()) rest = std::stable_partition(rest, temporaries.end(), is_gradient);
    std::for_each(temporaries.begin(), rest, [&](TensorId id) { builder.take(op, id); });
    for (const Trained* one : matrices)
      orthogonalize(builder, op, *one, memory_of(*one).temporary_element);
    std::for_each(rest, temporaries.end(), [&](TensorId id) { builder.take(op, id); });
    for (const std::vector<TensorId>& own : one_by_one) {
      for (const TensorId id : own) builder.take(op, id);
      for (const TensorId id : own) builder.give(op, id);
    }
    for (const TensorId id : temporaries) builder.give(op, id);
    temporaries.clear();
    one_by_one.clear();
    matrices.clear();
  };
  std::int64_t waiting = 0;
  for (const Trained& one : tensors) {
    const OptimizerMemory memory = memory_of(one);
    if (memory.orthogonalizes && memory.gradient_element == Bytes(0)) continue;
    if (memory.gradient_element > Bytes(0)) {
      if (wide.at_once > 0 && waiting > 0 && waiting + one.elements > wide.at_once) {
        use();
        waiting = 0;
      }
      waiting += one.elements;
      temporaries.push_back(of(MemoryKind::gradients, one, memory.gradient_element));
    }
    if (memory.orthogonalizes) matrices.push_back(&one);
    const int count = foreach ? memory.foreach_temporaries : memory.loop_temporaries;
    const bool alone = !foreach || memory.one_by_one;
    if (alone) one_by_one.emplace_back();
    std::vector<TensorId>& own = alone ? one_by_one.back() : temporaries;
    for (int i = 0; i < count; ++i)
      own.push_back(of(MemoryKind::workspace, one, memory.temporary_element));
    if (alone && memory.gradient_element == Bytes(0)) use();
  }
  use();
}

OpId LocalOptimizer::step() {
  std::vector<After> before;
  prepare_gradients(builder_, {}, before);
  launch_optimizer(builder_, before);
  const OpId op = optimizer(builder_, builder_.costs().optimizer, std::move(before));
  if (builder_.training_step() > 0) {
    for (const TensorEvent& event : later_) builder_.note(op, event);
    return op;
  }
  update(builder_, op, trained(builder_.job()));
  std::ranges::copy_if(builder_[op].memory, std::back_inserter(later_),
                       [](const TensorEvent& event) { return !event.once; });
  return op;
}

}  // namespace rehearse::inline strategy
