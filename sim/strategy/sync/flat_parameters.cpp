#include "strategy/sync/flat_parameters.hpp"

#include <algorithm>

#include "model/captured/captured.hpp"
#include "model/stages.hpp"

namespace rehearse::inline strategy {

namespace {

std::int64_t padded(std::int64_t elements, std::int64_t shards) {
  return (elements + shards - 1) / shards * shards;
}

// Whether the run so far is complete, so that a further unit with parameters starts the next one.
bool complete(const ShardedParameters& options, std::int64_t elements) {
  switch (options.wrap) {
    case TorchFsdp1::Wrap::unit:
    case TorchFsdp1::Wrap::blocks:
      return elements > 0;
    case TorchFsdp1::Wrap::model:
      return false;
    case TorchFsdp1::Wrap::size:
      return elements >= options.min_num_params;
  }
  return false;
}

/// Layers inside a unit that size_based_auto_wrap_policy wraps by themselves.
double modules_of_size(const Unit& unit, std::int64_t least) {
  return static_cast<double>(std::ranges::count_if(
      unit.tensors, [&](std::int64_t elements) { return elements >= least; }));
}

/// Bytes of an element of what bitsandbytes' parameter holds of a quantized weight. Its QuantState,
/// with the scales, is an attribute of the module, which FSDP1 and ZeRO-3 do not know.
Bytes packed_element(StoredAs storage) {
  switch (storage) {
    case StoredAs::nf4:
    case StoredAs::nf4_double:
      return Bytes(0.5);
    case StoredAs::int8:
      return Bytes(1);
    default:
      return Bytes(0);
  }
}

/// Facts that decide how units are wrapped.
struct Wrapping {
  const Model& model;
  Precision precision;
  const Shards& shards;
  bool apart;    ///< other ranks share the experts
  bool tensors;  ///< each parameter is sharded by itself, scales too
};

void add_unit(const Wrapping& all, std::size_t number, FlatParameter& run) {
  const Unit& unit = all.model.units[number];
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    const ParameterTrait trait = unit.trait(i);
    const bool expert = all.apart && unit.is_of_experts(i);
    const std::int64_t ranks = expert ? all.shards.experts : all.shards.all;
    const std::int64_t elements =
        all.tensors ? captured::padded_elements(all.model, number, i, ranks) : unit.tensors[i];
    if (expert) {
      run.experts += elements;
      if (trait.trained) run.trained_experts += elements;
      continue;
    }
    if (trait.trained) run.trained += elements;
    if (trait.trained && trait.storage != StoredAs::model) run.storage = trait.storage;
    if (trait.trained || trait.storage == StoredAs::model) {
      run.elements += elements;
    } else {
      const Bytes stored = stored_bytes(unit, i, all.precision);
      const Bytes packed = static_cast<double>(unit.tensors[i]) * packed_element(trait.storage);
      const bool whole = packed > Bytes(0) && !all.tensors;
      run.others += whole ? packed : stored;
      if (whole) run.scales += stored - packed;
    }
  }
}

/// By unit: whether the root holds it beside the blocks of a chain.
std::vector<bool> around_blocks(const Model& model, const ShardedParameters& options) {
  std::vector<bool> rest(model.units.size(), options.wrap == TorchFsdp1::Wrap::blocks);
  for (const std::size_t block : counted_units(model)) rest[block] = false;
  return rest;
}

FlatParameter* root_of(std::vector<FlatParameter>& runs) {
  const auto root = std::ranges::find(runs, true, &FlatParameter::root);
  return root == runs.end() ? nullptr : &*root;
}

}  // namespace

std::vector<FlatParameter> wrap(const Model& model, const ShardedParameters& options,
                                Precision precision, const Shards& shards, bool apart) {
  const Wrapping all{model, precision, shards, apart, options.keeps_tensors()};
  std::vector<FlatParameter> runs;
  std::int64_t held = 0;
  std::vector<bool> rest = around_blocks(model, options);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const std::int64_t elements = model.units[unit].parameters();
    const bool begins = std::ranges::count(model.chunks, unit, &Chunk::first) > 0;
    FlatParameter* const root = root_of(runs);
    if (rest[unit] && root != nullptr) {
      root->apart.push_back(unit);
      add_unit(all, unit, *root);
      continue;
    }
    if (runs.empty() || rest[unit] || begins || (elements > 0 && complete(options, held))) {
      runs.push_back({.first = unit, .last = unit, .root = rest[unit], .others = {}, .scales = {}});
      held = 0;
    }
    held += elements;
    runs.back().last = unit;
    add_unit(all, unit, runs.back());
    if (options.wrap == TorchFsdp1::Wrap::size)
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
    const bool whole = flat && run.trained > 0 && options.held == ShardedParameters::Held::flat;
    run.graded = whole ? run.elements : run.trained;
  }
  if (runs.size() == 1 && runs.front().elements == 0 && runs.front().others == Bytes(0))
    runs.clear();
  return runs;
}

}  // namespace rehearse::inline strategy
