// The tensors of a program beside the model's tape: what every strategy holds, and what an
// optimizer takes.
#include <algorithm>
#include <array>
#include <cmath>

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

namespace {

/// Of a batch of tokens and of what they are to predict, what this part of the model reads.
double parts_of_batch(const Model& model) {
  if (model.chunks.empty()) return 2;
  double parts = 0;
  if (std::ranges::any_of(model.chunks, [](const Chunk& one) { return one.input == 0; })) ++parts;
  if (std::ranges::any_of(model.chunks, [](const Chunk& one) { return one.has_loss; })) ++parts;
  return parts;
}

/// What one batch and its targets take: images as floating-point numbers with a class each, or
/// tokens, each with the one to predict, in 64 bits. Nothing is known of an inline model's.
Bytes batch_bytes(const Model& model, const Job& job) {
  const auto samples = static_cast<double>(job.batch_per_gpu);
  constexpr Bytes kIndex(8);
  if (model.tokens_per_sample > 0)
    return samples * static_cast<double>(model.tokens_per_sample) * parts_of_batch(model) * kIndex;
  if (model.image == 0) return Bytes(0);
  return samples * (model.input_elements * parameter_element(job.precision) + kIndex);
}

/// PyTorch's getChosenWorkspaceSize (aten/src/ATen/cuda/CublasHandlePool.cpp), kept for good from
/// the first product on: 2 x 4096 KiB + 8 x 16 KiB, on Hopper 8 x 4096 KiB. AMD's hipBLAS takes as
/// much as Hopper's, from CDNA 3 on, which has FP8, 128 MiB.
Bytes cublas_workspace(const Gpu& gpu) {
  constexpr double kKib = 1024;
  switch (gpu.architecture) {
    case GpuArchitecture::hopper:
      return Bytes(8 * 4096 * kKib);
    case GpuArchitecture::cdna:
      return Bytes((gpu.fp8 > FlopsPerSecond(0) ? 128 : 32) * 1024 * kKib);
    default:
      return Bytes((2 * 4096 + 8 * 16) * kKib);
  }
}

/// Of ranks that one program stands for, the most.
Bytes cublas_workspace(const Cluster& cluster) {
  Bytes most;
  for (const NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0) most = std::max(most, cublas_workspace(group.node.gpu));
  return most;
}

/// As rows and as columns, which products on Hopper need, and scales that go with rows; Blackwell's
/// multiply either way by one scale for a tensor.
Bytes narrow_weight_element(const Job& job) {
  const bool one_copy = std::ranges::any_of(job.cluster.groups, [](const NodeGroup& group) {
    return group.node.gpu.architecture == GpuArchitecture::blackwell;
  });
  return narrow_element(job.precision) * (job.precision == Precision::fp8 && one_copy ? 1 : 2);
}

/// Rows and columns of a matrix that is square.
std::int64_t factors(std::int64_t elements) {
  return static_cast<std::int64_t>(2 * std::sqrt(static_cast<double>(elements)));
}

}  // namespace

TensorId ProgramBuilder::tensor(MemoryKind kind, Bytes size, std::uint32_t owner,
                                std::uint32_t stream) {
  program.tensors.push_back({kind, size, owner, stream});
  return TensorId(program.tensors.size() - 1);
}

std::uint32_t ProgramBuilder::owner(std::string name) {
  program.owners.push_back(std::move(name));
  return static_cast<std::uint32_t>(program.owners.size() - 1);
}

void ProgramBuilder::note(OpId op, const TensorEvent& event) {
  if (notes_memory_) program.ops[op.index()].memory.push_back(event);
}

namespace {

bool is_played(int index, int count) { return index < 3 || index + 1 == count; }

}  // namespace

void ProgramBuilder::micro_batch(int index, int count) {
  notes_memory_ = notes_step_ && is_played(index, count);
}

void ProgramBuilder::training_step(int index, int count) {
  notes_memory_ = notes_step_ = is_played(index, count);
  step_ = static_cast<std::uint32_t>(index);
  program.steps = static_cast<std::uint32_t>(count);
}

void ProgramBuilder::give_gradients(OpId op) {
  if (!job_.set_to_none) return;
  for (std::size_t unit = tapes_[0].size(); unit-- > 0;)
    for (const TensorId id : tapes_[0][unit].gradients) give(op, id);
}

void ProgramBuilder::hold_parameters() {
  for (std::uint32_t unit = 0; unit < job_.model.units.size(); ++unit)
    for (std::size_t i = 0; i < job_.model.units[unit].tensors.size(); ++i)
      hold(tensor(MemoryKind::parameters, stored_bytes(job_.model.units[unit], i, job_.precision),
                  unit));
  hold_narrow_weights();
}

/// TransformerEngine's copies, which a step's micro-batches share.
void ProgramBuilder::hold_narrow_weights() {
  const double elements = is_narrow(job_.precision) ? job_.model.narrow_parameters() : 0;
  if (elements > 0)
    hold(tensor(
        MemoryKind::parameters, elements * narrow_weight_element(job_),
        owner(job_.precision == Precision::nvfp4 ? "weights in 4 bits" : "weights in 8 bits")));
}

void ProgramBuilder::hold_surroundings(Bytes buffer_element) {
  const Model& model = job_.model;
  for (std::uint32_t unit = 0; unit < model.units.size(); ++unit) {
    const auto elements = static_cast<double>(model.units[unit].buffer_elements);
    if (elements > 0) hold(tensor(MemoryKind::parameters, elements * buffer_element, unit));
    const auto copies = static_cast<double>(model.units[unit].kept_copies);
    if (copies > 0)
      hold(tensor(MemoryKind::parameters, copies * parameter_element(job_.precision), unit));
  }
  const bool multiplies = model.has_operator(OperatorKind::matmul);
  if (job_.device == TapeDevice::cuda && multiplies)
    hold(tensor(MemoryKind::workspace, cublas_workspace(job_.cluster), owner("cuBLAS")));
  const Bytes batch = batch_bytes(model, job_);
  if (batch > Bytes(0)) hold(tensor(MemoryKind::activations, batch, owner("batch")));
}

std::vector<Trained> ProgramBuilder::trained(const Shards& shards) const {
  std::vector<Trained> all;
  for (std::uint32_t number = 0; number < job_.model.units.size(); ++number) {
    const Unit& unit = job_.model.units[number];
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      if (!unit.trait(i).trained) continue;
      const std::int64_t ranks = unit.is_of_experts(i) ? shards.experts : shards.all;
      all.push_back(trained(number, i, ranks));
    }
  }
  return all;
}

Trained ProgramBuilder::trained(std::uint32_t unit, std::size_t tensor, std::int64_t ranks) const {
  const Unit& of = job_.model.units[unit];
  Trained one{(of.tensors[tensor] + ranks - 1) / ranks, unit, of.trait(tensor).storage};
  if (job_.optimizer.kind == OptimizerKind::muon && ranks == 1)
    one.matrix = hidden_matrix(of, tensor);
  return one;
}

OpId ProgramBuilder::local_update() {
  std::vector<After> before;
  prepare_gradients({}, before);
  launch_optimizer(before);
  const OpId op = optimizer(costs_.optimizer, std::move(before));
  if (step_ > 0) {
    for (const TensorEvent& event : update_) note(op, event);
    return op;
  }
  update(op, trained());
  std::ranges::copy_if(program.ops[op.index()].memory, std::back_inserter(update_),
                       [](const TensorEvent& event) { return !event.once; });
  return op;
}

void ProgramBuilder::update(OpId op, const std::vector<Trained>& tensors, std::int64_t at_once) {
  const auto memory_of = [&](const Trained& one) {
    return optimizer_memory(on_tensor(on_storage(job_.optimizer, one.storage), one.matrix));
  };
  if (job_.optimizer.offload) return;
  const bool foreach = job_.optimizer.foreach && job_.device == TapeDevice::cuda;
  const auto of = [&](MemoryKind kind, const Trained& one, Bytes element) {
    return tensor(kind, element * static_cast<double>(one.elements), one.owner);
  };
  const auto keep = [&](const Trained& one, Bytes element) {
    note(op, {of(MemoryKind::optimizer_state, one, element), TensorEvent::Action::take, true});
  };
  for (const Trained& one : tensors) {
    const OptimizerMemory memory = memory_of(one);
    if (memory.master_element > Bytes(0)) keep(one, memory.master_element);
    if (memory.factored) keep({.elements = factors(one.elements), .owner = one.owner}, Bytes(4));
    if (job_.optimizer.paged) continue;
    for (int i = 0; i < memory.states; ++i) keep(one, memory.state_element);
  }
  for (const Trained& one : tensors)
    if (const OptimizerMemory memory = memory_of(one);
        memory.orthogonalizes && memory.gradient_element == Bytes(0))
      orthogonalize(op, one, memory.temporary_element);
  std::vector<TensorId> temporaries;
  std::vector<std::vector<TensorId>> one_by_one;  // beside the gradients' copies, if there are any
  std::vector<const Trained*> matrices;
  const auto is_gradient = [&](TensorId id) {
    return program.tensors[id.index()].kind == MemoryKind::gradients;
  };
  const auto use = [&] {
    auto rest = temporaries.begin();
    if (!matrices.empty()) rest = std::stable_partition(rest, temporaries.end(), is_gradient);
    std::for_each(temporaries.begin(), rest, [&](TensorId id) { take(op, id); });
    for (const Trained* one : matrices) orthogonalize(op, *one, memory_of(*one).temporary_element);
    std::for_each(rest, temporaries.end(), [&](TensorId id) { take(op, id); });
    for (const std::vector<TensorId>& own : one_by_one) {
      for (const TensorId id : own) take(op, id);
      for (const TensorId id : own) give(op, id);
    }
    for (const TensorId id : temporaries) give(op, id);
    temporaries.clear();
    one_by_one.clear();
    matrices.clear();
  };
  std::int64_t waiting = 0;
  for (const Trained& one : tensors) {
    const OptimizerMemory memory = memory_of(one);
    if (memory.orthogonalizes && memory.gradient_element == Bytes(0)) continue;
    if (memory.gradient_element > Bytes(0)) {
      if (at_once > 0 && waiting > 0 && waiting + one.elements > at_once) {
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

/// _single_tensor_muon of torch/optim/_muon.py: the update, its copy in bf16 where it is wider, and
/// in each step X X^T, a polynomial of that, and the next X, each beside the one before.
void ProgramBuilder::orthogonalize(OpId op, const Trained& one, Bytes element) {
  const MatrixShape& shape = *one.matrix;
  const auto least = static_cast<double>(std::min(shape.rows, shape.columns));
  const double elements = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  constexpr Bytes kHalf(2);
  const auto temporary = [&](Bytes size) { return tensor(MemoryKind::workspace, size, one.owner); };
  const TensorId update = temporary(elements * element);
  std::array<TensorId, 2> products{}, sums{}, next{};
  for (std::size_t i = 0; i < 2; ++i) {
    products[i] = temporary(least * least * kHalf);
    sums[i] = temporary(least * least * kHalf);
    next[i] = temporary(elements * kHalf);
  }
  take(op, update);
  if (element > kHalf) take(op, next[1]);
  for (std::size_t step = 0; step < kNewtonSchulzSteps; ++step) {
    const std::size_t now = step % 2, before = 1 - now;
    for (const auto& pair : {products, sums}) {
      take(op, pair[now]);
      if (step > 0) give(op, pair[before]);
    }
    take(op, next[now]);
    if (step > 0 || element > kHalf) give(op, next[before]);
  }
  const std::size_t last = (kNewtonSchulzSteps - 1) % 2;
  for (const TensorId id : {products[last], sums[last], update, next[last]}) give(op, id);
}

}  // namespace rehearse::inline strategy
