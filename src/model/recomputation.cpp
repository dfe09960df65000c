#include "model/recomputation.hpp"

#include <algorithm>

#include "model/adaptation.hpp"

namespace rehearse::inline model {
namespace {

bool holds(const std::vector<RecomputedModule>& all, RecomputedModule one) {
  return std::ranges::find(all, one) != all.end();
}

bool has_name(const Layer& layer, const std::vector<std::string>& names) {
  return std::ranges::any_of(layer.names, [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  });
}

bool has_kind(const Unit& unit, LayerKind kind) {
  return std::ranges::any_of(unit.layers,
                             [kind](const Layer& layer) { return layer.kind == kind; });
}

/// What stands before the blocks and behind them is not recomputed.
bool stands_between(const Unit& unit) {
  return !unit.layers.empty() && !has_kind(unit, LayerKind::embedding) &&
         !has_kind(unit, LayerKind::cross_entropy);
}

/// Which module each layer of a block belongs to.
std::vector<std::optional<RecomputedModule>> modules_of(const Unit& unit) {
  const bool experts = has_kind(unit, LayerKind::experts);
  const bool latent = has_kind(unit, LayerKind::latent_heads);
  std::vector<std::optional<RecomputedModule>> modules;
  bool feeds = false;  // between the products of a feed-forward layer
  for (std::size_t i = 0; i < unit.layers.size(); ++i) {
    const Layer& layer = unit.layers[i];
    const bool linear = layer.kind == LayerKind::linear;
    const bool norm = layer.kind == LayerKind::rms_norm || layer.kind == LayerKind::layer_norm;
    const bool low_rank = i > 0 && has_name(unit.layers[i - 1], {"q_a"});
    std::optional<RecomputedModule> module;
    feeds = feeds || (linear && has_name(layer, {"up", "gate_up"}));
    if (feeds) {
      module = experts ? RecomputedModule::shared_experts : RecomputedModule::mlp;
    } else if (layer.kind == LayerKind::experts) {
      module = RecomputedModule::moe;
    } else if (norm && !low_rank) {
      module = RecomputedModule::layernorm;
    } else if (layer.kind == LayerKind::latent_heads ||
               (linear && latent && has_name(layer, {"q", "q_b"}))) {
      module = RecomputedModule::mla_up_proj;
    } else if (layer.kind == LayerKind::attention) {
      module = RecomputedModule::core_attn;
    }
    if (linear && has_name(layer, {"down"})) feeds = false;
    modules.push_back(module);
  }
  return modules;
}

/// What a layer exchanges in forward it exchanges once more, in front of its backward.
void exchange_again(Unit& unit, const Layer& layer, bool gathers_alone) {
  const auto end = static_cast<std::size_t>(layer.end_operator);
  const std::size_t before = unit.exchanges.size();
  for (std::size_t i = 0; i < before; ++i) {
    const Exchange& one = unit.exchanges[i];
    const std::size_t at = one.issued.before_operator;
    if (one.pass != Direction::forward || at < layer.first_operator || at >= end) continue;
    if (gathers_alone && one.kind != ExchangeKind::all_gather) continue;
    Exchange again = one;
    again.pass = Direction::backward;
    again.issued = again.awaited = {.before_operator = end};
    unit.exchanges.push_back(again);
  }
}

void run_again(Unit& unit, const Layer& layer) {
  for (std::uint32_t op = layer.first_operator; op < layer.end_operator; ++op)
    unit.operators[op].recomputed = true;
}

void recompute_modules(Unit& unit, const std::vector<RecomputedModule>& modules) {
  const std::vector<std::optional<RecomputedModule>> own = modules_of(unit);
  const bool whole = holds(modules, RecomputedModule::moe);
  for (std::size_t i = 0; i < unit.layers.size(); ++i) {
    Layer& layer = unit.layers[i];
    const bool part = whole && own[i] == RecomputedModule::shared_experts;
    if (own[i] && (part || (holds(modules, *own[i]) && own[i] != RecomputedModule::core_attn))) {
      layer.remade = true;
      run_again(unit, layer);
      exchange_again(unit, layer, false);
    } else if (layer.kind == LayerKind::experts && holds(modules, RecomputedModule::moe_act)) {
      layer.experts.remakes_activation = true;
      for (std::uint32_t op = layer.first_operator; op < layer.end_operator; ++op)
        if (unit.operators[op].between_experts) unit.operators[op].recomputed = true;
    }
  }
}

/// Products of layers with a bias are addmm, which is not on the list of what is kept.
bool is_counted(const Layer& layer) {
  return (layer.kind == LayerKind::linear && !layer.bias) || layer.kind == LayerKind::latent_heads;
}

void keep_products(Unit& unit, const KeptProducts& kept) {
  int count = 0;
  for (Layer& layer : unit.layers) {
    const bool fused = layer.kind == LayerKind::attention && layer.attention.flash;
    layer.keeps_exchanges = true;
    if (fused) continue;
    layer.remade = true;
    run_again(unit, layer);
    exchange_again(unit, layer, true);
    if (!is_counted(layer)) continue;
    const std::size_t products = layer.kind == LayerKind::linear ? layer.channels.size() : 1;
    layer.kept_products.assign(products, true);
    for (std::size_t i = 0; i < products; ++i)
      layer.kept_products[i] = ++count % std::max(kept.every, 1) != 0 || kept.every == 0;
    std::size_t product = 0;
    for (std::uint32_t op = layer.first_operator; op < layer.end_operator; ++op) {
      Operator& one = unit.operators[op];
      if (one.kind != OperatorKind::matmul || product >= products) continue;
      if (layer.kept_products[product++]) one.recomputed = false;
    }
    for (std::uint32_t op = layer.first_operator; op < layer.end_operator; ++op) {
      Operator& one = unit.operators[op];
      if (one.library && one.gradient_ranks > 1) one.recomputed = false;  // before a reduce_scatter
    }
  }
}

}  // namespace

const std::vector<std::string>& recomputed_module_names() {
  static const std::vector<std::string> kNames = {"core_attn", "layernorm", "mla_up_proj",   "mlp",
                                                  "moe",       "moe_act",   "shared_experts"};
  return kNames;
}

Model recomputing(Model model, const Recomputation& recomputation) {
  if (holds(recomputation.modules, RecomputedModule::core_attn))
    model = recomputing_attention(std::move(model));
  for (Unit& unit : model.units) {
    if (!stands_between(unit)) continue;
    if (recomputation.products) {
      keep_products(unit, *recomputation.products);
    } else {
      recompute_modules(unit, recomputation.modules);
    }
    order_exchanges(unit.exchanges);
  }
  return model;
}

std::size_t rerun_operators(const Unit& unit) {
  const auto is_sum = [](const Layer& layer) {
    return layer.kind == LayerKind::add || layer.kind == LayerKind::scatter;
  };
  const auto last = std::find_if_not(unit.layers.rbegin(), unit.layers.rend(), is_sum);
  const bool stops = last != unit.layers.rend() && last->kind == LayerKind::linear &&
                     last->channels.size() == 1 && last->adapters.empty();
  if (!stops) return unit.operators.size();
  std::size_t at = last->first_operator;
  const std::size_t end = std::min<std::size_t>(last->end_operator, unit.operators.size());
  while (at < end && unit.operators[at].kind != OperatorKind::matmul) ++at;
  return at < end ? at : unit.operators.size();
}

std::string missing_module(const Model& model, const Recomputation& recomputation) {
  for (const RecomputedModule module : recomputation.modules) {
    const auto has = [module](const Unit& unit) {
      if (!stands_between(unit)) return false;
      if (module == RecomputedModule::moe_act) return has_kind(unit, LayerKind::experts);
      const auto own = modules_of(unit);
      return std::ranges::find(own, std::optional(module)) != own.end();
    };
    if (std::ranges::none_of(model.units, has))
      return recomputed_module_names()[static_cast<std::size_t>(module)];
  }
  return "";
}

}  // namespace rehearse::inline model
