#include "model/stages.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.hpp"

namespace rehearse::inline model {
namespace {

/// The weight that logits share with the embeddings becomes a tensor of the logits' own unit, in
/// front of their bias.
void own_shared_weight(Unit& unit, std::uint32_t number, std::int64_t elements) {
  for (Layer& layer : unit.layers) {
    if (!layer.tied) continue;
    layer.tied = false;
    layer.unit = number;
    unit.tensors.insert(unit.tensors.begin() + layer.parameter, elements);
    if (!unit.shares.empty())
      unit.shares.insert(unit.shares.begin() + layer.parameter, ParameterShare::sharded);
    for (Layer& other : unit.layers)
      if (&other != &layer && other.unit == number && other.parameter >= layer.parameter)
        ++other.parameter;
  }
}

std::uint32_t value_before(const Model& model, std::size_t unit) {
  return unit == 0 || model.units[unit - 1].layers.empty()
             ? 0
             : model.units[unit - 1].layers.back().output;
}

bool is_block(const Model& model, std::size_t unit) {
  const std::string& name = model.units[unit].name;
  const auto dot = name.rfind('.');
  return dot != std::string::npos && dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<std::size_t> counted_units(const Model& model) {
  std::vector<std::size_t> all(model.units.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> blocks;
  for (const std::size_t unit : all)
    if (is_block(model, unit)) blocks.push_back(unit);
  return model.layers > 0 && !blocks.empty() ? blocks : all;
}

std::vector<bool> first_blocks(const Model& model, const std::vector<UnitRange>& parts,
                               std::int64_t count) {
  std::vector<bool> chosen(model.units.size(), false);
  for (const auto& [first, end] : parts) {
    std::int64_t left = count;
    for (std::size_t unit = first; unit < end && left > 0; ++unit) {
      if (!is_block(model, unit)) continue;
      chosen[unit] = true;
      --left;
    }
  }
  return chosen;
}

std::int64_t shared_weight(const Model& model) {
  for (const Unit& unit : model.units)
    for (const Layer& layer : unit.layers)
      if (layer.tied) return model.units.front().tensors.front();
  return 0;
}

Model stage_of(const Model& model, const std::vector<UnitRange>& stages) {
  Model part = model;
  part.units.clear();
  part.chunks.clear();
  for (const auto& [first, end] : stages) {
    check(first < end && end <= model.units.size(), "a stage without units");
    Chunk chunk{.first = part.units.size(),
                .input = value_before(model, first),
                .has_loss = end == model.units.size()};
    for (std::size_t unit = first; unit < end; ++unit) {
      const auto number = static_cast<std::uint32_t>(part.units.size());
      Unit& own = part.units.emplace_back(model.units[unit]);
      for (Layer& layer : own.layers) layer.unit = layer.unit == unit ? number : 0;
      if (stages.front().first > 0) own_shared_weight(own, number, model.units[0].tensors[0]);
    }
    chunk.end = part.units.size();
    part.chunks.push_back(chunk);
  }
  return part;
}

std::vector<bool> cuts_of(const Model& model) {
  std::vector<bool> cuts(model.units.size(), true);
  for (std::size_t cut = 1; cut < model.units.size(); ++cut) {
    std::set<std::uint32_t> made;
    for (std::size_t unit = cut; unit < model.units.size(); ++unit) {
      for (const Layer& layer : model.units[unit].layers) {
        const auto known = [&](std::uint32_t value) {
          return value == value_before(model, cut) || value == 0 || made.contains(value);
        };
        if (!known(layer.input) || !known(layer.other)) cuts[cut] = false;
        // 0: of no unit's parameters.
        if (!layer.tied && layer.unit != 0 && layer.unit < cut) cuts[cut] = false;
        made.insert(layer.output);
      }
    }
  }
  return cuts;
}

std::vector<UnitRange> split_into_stages(const Model& model, std::size_t stages,
                                         const std::vector<std::int64_t>& counts,
                                         std::string& why_not) {
  const std::vector<std::size_t> parts = counted_units(model);
  const std::string what = parts.size() < model.units.size() ? "layers" : "units";
  std::vector<std::int64_t> of_stage = counts;
  if (counts.empty()) {
    if (parts.size() % stages != 0) {
      why_not = std::to_string(parts.size()) + " " + what + " do not divide into " +
                std::to_string(stages) + " stages";
      return {};
    }
    of_stage.assign(stages, static_cast<std::int64_t>(parts.size() / stages));
  }
  const auto sum = std::accumulate(of_stage.begin(), of_stage.end(), std::int64_t{0});
  if (of_stage.size() != stages || sum != static_cast<std::int64_t>(parts.size())) {
    why_not = "the split is of " + std::to_string(sum) + " " + what + " on " +
              std::to_string(of_stage.size()) + " stages; the model has " +
              std::to_string(parts.size()) + ", the pipeline " + std::to_string(stages);
    return {};
  }
  const std::vector<bool> cuts = cuts_of(model);
  std::vector<UnitRange> ranges;
  std::size_t counted = 0, first = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    counted += static_cast<std::size_t>(of_stage[stage]);
    const std::size_t behind = counted < parts.size() ? parts[counted] : parts.back() + 1;
    const std::size_t end = stage + 1 == stages ? model.units.size() : behind;
    if (first == end || (end < cuts.size() && !cuts[end])) {
      why_not = first == end
                    ? "stage " + std::to_string(stage) + " has nothing to compute"
                    : "the model cannot be cut before " + model.units[end].name +
                          ": what comes later reads more than one tensor of what is before";
      return {};
    }
    ranges.emplace_back(first, end);
    first = end;
  }
  return ranges;
}

}  // namespace rehearse::inline model
