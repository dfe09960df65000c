#include "model/stages.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "model/captured/captured.hpp"
#include "model/recorded/recorded.hpp"

namespace rehearse::inline model {
namespace {

/// Embeddings that read the table of the first unit, as those of a module that predicts a further
/// token do.
bool borrows_table(const Layer& layer, std::size_t unit) {
  return layer.kind == LayerKind::embedding && layer.unit == 0 && unit > 0;
}

bool shares_table(const Layer& layer, std::size_t unit) {
  return layer.tied || borrows_table(layer, unit);
}

/// A copy of the table becomes a tensor of a layer's own unit, in front of the layer's bias.
void own_table(Unit& unit, std::uint32_t number, Layer& layer, const Unit& first) {
  layer.tied = false;
  layer.unit = number;
  unit.tensors.insert(unit.tensors.begin() + layer.parameter, first.tensors.at(0));
  if (!unit.traits.empty())
    unit.traits.insert(unit.traits.begin() + layer.parameter, first.trait(0));
  if (!unit.shares.empty())
    unit.shares.insert(unit.shares.begin() + layer.parameter, ParameterShare::sharded);
  for (Layer& other : unit.layers) {
    for (Adapter& adapter : other.adapters)
      if (adapter.parameter >= layer.parameter) ++adapter.parameter;
    if (&other != &layer && other.unit == number && other.parameter >= layer.parameter)
      ++other.parameter;
  }
}

/// The stages of a rank without the first unit have one copy of its table, whoever reads it there.
class TableCopy {
 public:
  explicit TableCopy(const Unit& first) : first_(first) {}

  void give(Unit& unit, std::uint32_t number, Layer& layer) {
    if (!is_there_ || layer.bias) {
      own_table(unit, number, layer, first_);
      if (layer.bias) return;
      is_there_ = true;
      unit_ = number;
      parameter_ = layer.parameter;
    } else {
      layer.tied = false;
      layer.unit = unit_;
      layer.parameter = parameter_;
    }
  }

 private:
  const Unit& first_;
  bool is_there_ = false;
  std::uint32_t unit_ = 0, parameter_ = 0;
};

std::uint32_t value_before(const Model& model, std::size_t unit) {
  return unit == 0 || model.units[unit - 1].layers.empty()
             ? 0
             : model.units[unit - 1].layers.back().output;
}

/// Whether a layer gives fp32 under CUDA's autocast where what it reads is fp32, or not.
bool gives_wide(const Layer& layer, bool reads_wide) {
  switch (layer.kind) {
    case LayerKind::layer_norm:
      return reads_wide || layer.norm == NormForm::usual;
    case LayerKind::class_token:
      return true;
    case LayerKind::linear:
    case LayerKind::convolution:
    case LayerKind::attention:
    case LayerKind::cross_attention:
    case LayerKind::latent_heads:
    case LayerKind::mixer:
    case LayerKind::by_position:
    case LayerKind::unpack_heads:
      return false;
    default:
      return reads_wide;
  }
}

/// By value: those that are fp32 under CUDA's autocast of 16-bit parameters.
std::set<std::uint32_t> wide_values(const Model& model) {
  std::set<std::uint32_t> wide;
  for (const Unit& unit : model.units) {
    for (const Layer& layer : unit.layers) {
      const bool reads_wide = wide.contains(layer.input) || wide.contains(layer.other);
      if (gives_wide(layer, reads_wide)) wide.insert(layer.output);
    }
  }
  return wide;
}

bool is_block(const Model& model, std::size_t unit) {
  if (model.captured) return captured::is_block(model, unit);
  const std::string& name = model.units[unit].name;
  const auto dot = name.rfind('.');
  return dot != std::string::npos && dot + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

/// Modules of multi-token prediction, which are blocks of the last stage without being counted.
std::size_t further_predictions(const Model& model) {
  return static_cast<std::size_t>(std::ranges::count_if(
      model.units, [](const Unit& unit) { return unit.name.starts_with("predict."); }));
}

}  // namespace

std::vector<std::size_t> counted_units(const Model& model) {
  std::vector<std::size_t> all(model.units.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::size_t> blocks;
  for (const std::size_t unit : all)
    if (is_block(model, unit)) blocks.push_back(unit);
  const bool chain = model.layers > 0 || model.captured || recorded::is_profiled(model);
  return chain && !blocks.empty() ? blocks : all;
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
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    for (const Layer& layer : model.units[unit].layers)
      if (shares_table(layer, unit)) return model.units.front().tensors.front();
  return 0;
}

Model stage_of(const Model& model, const std::vector<UnitRange>& stages) {
  Model part = model;
  part.units.clear();
  part.chunks.clear();
  TableCopy table(model.units.front());
  const std::set<std::uint32_t> wide = wide_values(model);
  for (const auto& [first, end] : stages) {
    check(first < end && end <= model.units.size(), "a stage without units");
    Chunk chunk{.first = part.units.size(),
                .input = value_before(model, first),
                .has_loss = end == model.units.size()};
    chunk.wide_input = wide.contains(chunk.input);
    for (std::size_t unit = first; unit < end; ++unit) {
      const auto number = static_cast<std::uint32_t>(part.units.size());
      Unit& own = part.units.emplace_back(model.units[unit]);
      std::vector<Layer*> sharing;
      for (Layer& layer : own.layers) {
        if (shares_table(layer, unit)) sharing.push_back(&layer);
        layer.unit = layer.unit == unit ? number : 0;
        for (Adapter& adapter : layer.adapters) adapter.unit = number;
      }
      if (stages.front().first == 0) continue;
      for (Layer* const layer : sharing) table.give(own, number, *layer);
    }
    chunk.end = part.units.size();
    part.chunks.push_back(chunk);
  }
  return part;
}

std::vector<bool> cuts_of(const Model& model) {
  const std::size_t units = model.units.size();
  std::vector<bool> cuts(units, true);
  if (model.captured) {
    for (std::size_t cut = 1; cut < units; ++cut) cuts[cut] = captured::can_cut_before(model, cut);
    return cuts;
  }
  if (recorded::tells_cuts(model)) {
    for (std::size_t cut = 1; cut < units; ++cut) cuts[cut] = model.units[cut].handed > Bytes(0);
    return cuts;
  }
  std::unordered_map<std::uint32_t, std::size_t> made_in;  // by value: the unit
  // What a unit takes of unit `from` (0 also: of what no unit made) passes all cuts between the
  // two, but one whose only tensor that is.
  const auto pass = [&](std::size_t from, std::size_t unit, std::uint32_t value) {
    for (std::size_t cut = from + 1; cut <= unit; ++cut)
      if (value == 0 || value != value_before(model, cut)) cuts[cut] = false;
  };
  for (std::size_t unit = 0; unit < units; ++unit) {
    for (const Layer& layer : model.units[unit].layers) {
      for (const std::uint32_t value : {layer.input, layer.other}) {
        if (value == 0) continue;
        const auto made = made_in.find(value);
        pass(made == made_in.end() ? 0 : made->second, unit, value);
      }
      // 0: of no unit's parameters.
      if (!layer.tied && layer.unit != 0) pass(layer.unit, unit, 0);
      made_in[layer.output] = unit;
    }
  }
  return cuts;
}

std::vector<UnitRange> split_into_stages(const Model& model, std::size_t stages,
                                         const std::vector<std::int64_t>& counts,
                                         std::string& why_not) {
  const std::vector<std::size_t> parts = counted_units(model);
  const std::string what = parts.size() < model.units.size() ? "layers" : "units";
  const std::size_t further = further_predictions(model);
  std::vector<std::int64_t> of_stage = counts;
  if (counts.empty()) {
    const std::size_t even = parts.size() - further;
    if (even % stages != 0) {
      why_not = std::to_string(even) + " " + what + " do not divide into " +
                std::to_string(stages) + " stages";
      return {};
    }
    of_stage.assign(stages, static_cast<std::int64_t>(even / stages));
  }
  const auto blocks = std::accumulate(of_stage.begin(), of_stage.end(), std::int64_t{0});
  if (blocks + static_cast<std::int64_t>(further) == static_cast<std::int64_t>(parts.size()))
    of_stage.back() += static_cast<std::int64_t>(further);
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
      why_not = first == end ? "stage " + std::to_string(stage) + " has nothing to compute"
                : recorded::tells_cuts(model)
                    ? "the profile does not say that " + model.units[end].name +
                          " reads one tensor of what is before it, and how large that is; "
                          "`rehearse record` writes it where it is so"
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
