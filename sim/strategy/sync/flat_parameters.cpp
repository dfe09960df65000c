#include "strategy/sync/flat_parameters.hpp"

#include <algorithm>

namespace rehearse::inline strategy {

namespace {

std::int64_t padded(std::int64_t elements, std::int64_t shards) {
  return (elements + shards - 1) / shards * shards;
}

// Whether the run so far is complete, so that a further unit with parameters starts the next one.
bool complete(const Fsdp& options, std::int64_t elements) {
  switch (options.wrap) {
    case Fsdp::Wrap::unit:
      return elements > 0;
    case Fsdp::Wrap::model:
      return false;
    case Fsdp::Wrap::size:
      return elements >= options.min_num_params;
  }
  return false;
}

/// Layers inside a unit that size_based_auto_wrap_policy wraps by themselves.
double modules_of_size(const Unit& unit, std::int64_t least) {
  return static_cast<double>(std::ranges::count_if(
      unit.tensors, [&](std::int64_t elements) { return elements >= least; }));
}

void add_unit(const Unit& unit, Precision precision, bool apart, FlatParameter& run) {
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    const ParameterTrait trait = unit.trait(i);
    if (apart && unit.is_of_experts(i)) {
      run.experts += unit.tensors[i];
      if (trait.trained) run.trained_experts += unit.tensors[i];
      continue;
    }
    if (trait.trained) run.trained += unit.tensors[i];
    if (trait.trained && trait.storage != StoredAs::model) run.storage = trait.storage;
    if (trait.trained || trait.storage == StoredAs::model) {
      run.elements += unit.tensors[i];
    } else {
      run.others += stored_bytes(unit, i, precision);
    }
  }
}

}  // namespace

std::vector<FlatParameter> wrap(const Model& model, const Fsdp& options, Precision precision,
                                const Shards& shards, bool apart) {
  std::vector<FlatParameter> runs;
  std::int64_t held = 0;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const std::int64_t elements = model.units[unit].parameters();
    const bool begins = std::ranges::count(model.chunks, unit, &Chunk::first) > 0;
    if (runs.empty() || begins || (elements > 0 && complete(options, held))) {
      runs.push_back({.first = unit, .last = unit, .others = {}});
      held = 0;
    }
    held += elements;
    runs.back().last = unit;
    add_unit(model.units[unit], precision, apart, runs.back());
    if (options.wrap == Fsdp::Wrap::size)
      runs.back().wrapped_modules += modules_of_size(model.units[unit], options.min_num_params);
  }
  for (FlatParameter& run : runs) run.wrapped_modules = std::max(1.0, run.wrapped_modules);
  for (FlatParameter& run : runs) {
    run.elements = padded(run.elements, shards.all);
    run.trained = padded(run.trained, shards.all);
    run.experts = padded(run.experts, shards.experts);
    run.trained_experts = padded(run.trained_experts, shards.experts);
    // Tensors of several types are never flat.
    const bool flat = run.storage == StoredAs::model && run.others == Bytes(0);
    const bool all = flat && run.trained > 0 && options.flat_gradients && !options.per_parameter;
    run.graded = all ? run.elements : run.trained;
  }
  if (runs.size() == 1 && runs.front().elements == 0 && runs.front().others == Bytes(0))
    runs.clear();
  return runs;
}

}  // namespace rehearse::inline strategy
