// What every strategy holds of a model beside its tape.
#include <algorithm>

#include "model/captured/captured.hpp"
#include "strategy/holdings.hpp"

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
  if (model.captured) return captured::batch_bytes(*model.captured, samples);
  constexpr Bytes kIndex(8);
  if (model.tokens_per_sample > 0)
    return samples * static_cast<double>(model.tokens_per_sample) * parts_of_batch(model) * kIndex;
  if (model.image == 0) return Bytes(0);
  return samples * (model.input_elements * parameter_element(job.precision) + kIndex);
}

/// Images and other numbers of a batch that the caller has as they are stored, beside the copies
/// that forward reads under FSDP's mixed precision (MixedPrecisionPolicy's cast_forward_inputs,
/// MixedPrecision's cast_root_forward_inputs: both true by default).
Bytes copied_batch(const ProgramBuilder& builder) {
  const Job& job = builder.job();
  const Bytes stored = parameter_element(job.precision);
  const Bytes computed = activation_element(builder.computes());
  if (is_autocast(builder.computes()) || stored <= computed) return Bytes(0);
  const auto samples = static_cast<double>(job.batch_per_gpu);
  if (!job.model.captured)
    return job.model.image > 0 ? samples * job.model.input_elements * computed : Bytes(0);
  double elements = 0;
  for (const captured::Tensor& one : job.model.captured->inputs)
    if (one.is_narrow()) elements += one.elements(samples);
  return elements * stored;
}

/// Of ranks that one program stands for, the most. Handles are a thread's own: forward's has one,
/// and autograd's, which runs backward, another.
Bytes cublas_workspaces(const Cluster& cluster, bool trains) {
  Bytes most;
  for (const NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0) most = std::max(most, group.node.gpu.architecture->cublas_workspace);
  return most * (trains ? 2 : 1);
}

/// As rows and as columns, where its products need both, with scales that go with rows.
Bytes narrow_weight_element(const Job& job) {
  const bool one_copy = std::ranges::any_of(job.cluster.groups, [](const NodeGroup& group) {
    return group.node.gpu.architecture->fp8_copies == 1;
  });
  return narrow_element(job.precision) * (job.precision == Precision::fp8 && one_copy ? 1 : 2);
}

/// TransformerEngine's copies, which a step's micro-batches share.
void hold_narrow_weights(ProgramBuilder& builder) {
  const double elements =
      is_narrow(builder.job().precision) ? builder.job().model.narrow_parameters() : 0;
  if (elements > 0)
    builder.hold(builder.tensor(
        MemoryKind::parameters, elements * narrow_weight_element(builder.job()),
        builder.owner(builder.job().precision == Precision::nvfp4 ? "weights in 4 bits"
                                                                  : "weights in 8 bits")));
}

/// The share of a unit's parameters that are kept as the precision says: all but those in 8 bits.
double wide_share(const Unit& unit) {
  double narrow = 0;
  for (const Operator& op : unit.operators) narrow += op.narrows ? op.parameter_elements : 0;
  const auto all = static_cast<double>(unit.parameters());
  return all > 0 ? 1 - narrow / all : 1;
}

}  // namespace

void hold_parameters(ProgramBuilder& builder, bool narrow_alone) {
  for (std::uint32_t number = 0; number < builder.job().model.units.size(); ++number) {
    const Unit& unit = builder.job().model.units[number];
    const double share = narrow_alone ? wide_share(unit) : 1;
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      builder.hold(builder.tensor(MemoryKind::parameters,
                                  share * stored_bytes(unit, i, builder.job().precision), number));
  }
  hold_narrow_weights(builder);
}

void hold_surroundings(ProgramBuilder& builder, Bytes buffer_element) {
  const Model& model = builder.job().model;
  for (std::uint32_t unit = 0; unit < model.units.size(); ++unit) {
    const auto elements = static_cast<double>(model.units[unit].buffer_elements);
    if (elements > 0)
      builder.hold(builder.tensor(MemoryKind::parameters, elements * buffer_element, unit));
    const auto copies = static_cast<double>(model.units[unit].kept_copies);
    if (copies > 0)
      builder.hold(builder.tensor(MemoryKind::parameters,
                                  copies * parameter_element(builder.job().precision), unit));
  }
  const bool multiplies = model.has_operator(OperatorKind::matmul);
  if (builder.job().device == TapeDevice::cuda && multiplies)
    builder.hold(builder.tensor(MemoryKind::workspace,
                                cublas_workspaces(builder.job().cluster, builder.job().trains),
                                builder.owner("cuBLAS")));
  const Bytes batch = batch_bytes(model, builder.job()) + copied_batch(builder);
  if (batch > Bytes(0))
    builder.hold(builder.tensor(MemoryKind::activations, batch, builder.owner("batch")));
}

}  // namespace rehearse::inline strategy
