#include "model/adaptation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace rehearse::inline model {
namespace {

bool holds(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

bool multiplies_weights(const Operator& op) {
  return (op.kind == OperatorKind::matmul || op.kind == OperatorKind::convolution ||
          op.kind == OperatorKind::depthwise_convolution) &&
         op.parameter_elements > 0;
}

/// Without the gradients of parameters: of a product dx stays, of a norm its dx.
void freeze(Operator& op) {
  op.frozen = true;
  if (multiplies_weights(op)) {
    op.backward_flops = op.input_gradient ? op.forward_flops : 0;
    op.backward_elements = op.input_gradient ? op.forward_elements : 0;
  } else if (op.kind == OperatorKind::embedding) {
    op.backward_elements = 0;
  } else if (op.kind == OperatorKind::normalization && op.parameter_elements > 0) {
    op.backward_elements *= 3.0 / 5;
    // Nor the product of the gradient and the normed input, and its sum.
    EagerKernels& eager = op.eager_backward;
    if (eager.kernels > 0) eager.kernels -= 2, eager.moved *= 11.0 / 15;
  } else if (op.kind == OperatorKind::elementwise && op.forward_elements == 0 &&
             op.parameter_elements > 0) {
    op.backward_elements = 0;  // a bias's sum
  }
}

void skip_backward(std::span<Operator> operators) {
  for (Operator& op : operators) {
    op.backward_flops = op.backward_elements = 0;
    op.input_gradient = false;
    op.eager_backward = {};
  }
}

void freeze(Unit& unit, const Adaptation& how) {
  unit.traits.assign(unit.tensors.size(), {.trained = false, .storage = how.others});
  for (Operator& op : unit.operators) freeze(op);
}

/// The router's weight and the experts'; their biases stay as they are.
void quantize_experts(Unit& unit, const Layer& layer, const Adaptation& how) {
  const std::uint32_t each = layer.experts.biases ? 2 : 1;
  const std::uint32_t count = layer.experts.latent > 0 ? 5 : 3;
  for (std::uint32_t weight = 0; weight < count; ++weight)
    unit.traits[layer.parameter + weight * each] = {
        .trained = false,
        .storage = how.linear,
        .keeps_input = how.keeps_inputs || how.linear == StoredAs::int8};
}

/// The weights of linear layers and of experts that are kept in fewer bits.
void quantize(Unit& unit, const Adaptation& how) {
  bool quantizes = false;
  for (const Layer& layer : unit.layers) {
    if (layer.kind == LayerKind::experts) {
      quantizes = true;
      quantize_experts(unit, layer, how);
    }
    if (layer.kind != LayerKind::linear || layer.tied) continue;
    if (holds(layer.names, "lm_head") && !how.logits) continue;
    quantizes = true;
    const std::uint32_t each = layer.bias ? 2 : 1;
    const bool keeps = how.keeps_inputs || how.linear == StoredAs::int8;  // MatMul8bitLt does
    for (std::uint32_t side = 0; side < layer.channels.size(); ++side)
      unit.traits[layer.parameter + side * each] = {
          .trained = false, .storage = how.linear, .keeps_input = keeps};
  }
  for (Operator& op : unit.operators)
    if (quantizes && op.kind == OperatorKind::matmul && multiplies_weights(op))
      op.storage = how.linear;
}

/// A conversion in each pass; forward it makes fp32, or 16 bits.
Operator conversion(double elements, bool widens) {
  return {.kind = OperatorKind::cast,
          .forward_elements = elements,
          .backward_elements = elements,
          .wide = !widens,
          .always_fp32 = true,
          .storage = StoredAs::fp32};
}

double attended(const Attention& heads, double tokens) {
  const auto keys = static_cast<double>(heads.kv_heads * (heads.head_width + heads.values()));
  return tokens * (static_cast<double>(heads.heads * heads.head_width) + keys);
}

/// Embeddings and norms in fp32 make fp32 of all that follows, as quantized products return what
/// they were given, converted (bitsandbytes' Linear4bit). Attention makes 16 bits of it.
void widen(Unit& unit) {
  std::vector<Operator> conversions;
  bool narrow = false;
  for (Operator& op : unit.operators) {
    if (op.kind == OperatorKind::attention) {
      if (op.heads.heads > 0)
        conversions.push_back(conversion(attended(op.heads, op.tokens), false));
      narrow = true;
    } else if (op.storage >= StoredAs::int8) {
      if (!narrow) {
        conversions.push_back(conversion(op.product.rows * op.product.inner, false));
        conversions.push_back(conversion(op.product.rows * op.product.columns, true));
        op.always_fp32 =
            op.storage == StoredAs::int8;  // MatMul8bitLt's backward, of its input's type
      }
      narrow = false;
    } else if (multiplies_weights(op)) {
      op.storage = StoredAs::fp32;
    } else if (op.kind == OperatorKind::elementwise || op.kind == OperatorKind::normalization) {
      op.always_fp32 = true;
      op.storage = StoredAs::fp32;
    }
  }
  unit.operators.insert(unit.operators.end(), conversions.begin(), conversions.end());
}

/// The product of one of an adapter's two matrices.
Operator product(double rows, std::int64_t in, std::int64_t out, bool wide, bool to_input = true) {
  const auto broad = static_cast<double>(in), narrow = static_cast<double>(out);
  const double flops = 2 * rows * broad * narrow;
  return {.kind = OperatorKind::matmul,
          .forward_flops = flops,
          .backward_flops = (to_input ? 2 : 1) * flops,
          .forward_elements = rows * (broad + narrow),
          .backward_elements = (to_input ? 2 : 1) * rows * (broad + narrow),
          .parameter_elements = broad * narrow,
          .always_fp32 = wide,
          .product = {.rows = rows, .columns = narrow, .inner = broad},
          .input_gradient = to_input,
          .storage = wide ? StoredAs::fp32 : StoredAs::model};
}

/// What an adapter stands beside.
struct Base {
  bool quantized = false;
  bool reads_fp32 = false;  ///< and returns it
  bool input_gradient = true;
};

/// Tensor ranks that share the tokens gather them for the products, and scatter what a product
/// of rows made, as they do for the base layer.
void add_operators(Unit& unit, const Layer& layer, std::int64_t out, const Lora& lora, Base base) {
  const Extent& in = layer.in;
  const auto rows = static_cast<double>(std::max(in.positions(), layer.out.positions()));
  const auto elements = static_cast<double>(layer.out.positions() * out);
  const bool wide = lora.storage == StoredAs::fp32;
  const auto move = [&](double forward, double backward) {
    unit.operators.push_back({.kind = OperatorKind::elementwise,
                              .forward_elements = forward,
                              .backward_elements = backward,
                              .always_fp32 = wide,
                              .storage = lora.storage});
  };
  const auto convert = [&](double count, bool widens) {
    if (wide) unit.operators.push_back(conversion(count, widens));
  };
  const auto inputs = static_cast<double>(in.elements());
  if (base.quantized) move(2 * elements, 0);  // a copy of what the base made
  if (lora.dropout) move(2.5 * inputs, 2.5 * inputs);
  convert(inputs, !base.reads_fp32);
  unit.operators.push_back(product(rows, in.channels, lora.rank, wide, base.input_gradient));
  unit.operators.push_back(product(rows, lora.rank, out, wide));
  move(2 * elements, 2 * elements);  // times the scale
  // The sum; backward sums both branches' gradients of x.
  move(3 * elements, base.input_gradient ? 3 * inputs : 0);
  if (wide) {  // of 16 bits and of fp32: type promotion is not vectorized
    unit.operators.back().always_fp32 = false;
    unit.operators.back().eager_forward = {.kernels = 1, .written = elements};
  }
  if (!base.reads_fp32) convert(elements, false);
}

}  // namespace

void compute_adapters_in_16_bits(Model& model) {
  for (Unit& unit : model.units)
    for (Operator& op : unit.operators) {
      if (op.storage != StoredAs::fp32) continue;
      op.always_fp32 = false;
      op.eager_forward = {};
      if (op.kind == OperatorKind::cast) op.forward_elements = op.backward_elements = 0;
    }
}

namespace {

/// Channels of those of q, k and v that are targets, where one product makes all three.
std::vector<std::int64_t> parts_of(const std::string& name, std::int64_t channels,
                                   const Attention& heads, const Lora& lora) {
  std::vector<std::int64_t> parts;
  if (name != "qkv" || heads.heads == 0) return parts;
  const std::int64_t each = channels / (heads.heads + 2 * heads.kv_heads);
  if (holds(lora.targets, "q")) parts.push_back(each * heads.heads);
  if (holds(lora.targets, "k")) parts.push_back(each * heads.kv_heads);
  if (holds(lora.targets, "v")) parts.push_back(each * heads.kv_heads);
  return parts;
}

Attention heads_of(const Unit& unit) {
  for (const Layer& layer : unit.layers)
    if (layer.kind == LayerKind::attention) return layer.attention;
  return {.heads = 0};
}

/// Shares of an adapter's two matrices, in a rank's share of a model. Of the one that reads a part
/// of a product's inputs, or makes a part of its outputs, a tensor rank has that part. The other is
/// whole, and each rank has the gradient of its own part. Where the product is whole, both are.
std::pair<ParameterShare, ParameterShare> shares_of_adapter(const Unit& unit, const Layer& layer) {
  const bool is_split = layer.tied || unit.shares.at(layer.parameter) == ParameterShare::sharded;
  if (!is_split) return {unit.shares[layer.parameter], unit.shares[layer.parameter]};
  const std::pair columns(ParameterShare::summed, ParameterShare::sharded);
  return layer.splits_inputs ? std::pair(columns.second, columns.first) : columns;
}

void add_tensor(Unit& unit, std::int64_t elements, StoredAs storage,
                std::optional<ParameterShare> share) {
  unit.tensors.push_back(elements);
  unit.traits.push_back({.trained = true, .storage = storage});
  if (share) unit.shares.push_back(*share);
}

/// Values that autograd follows, from the first adapter on, or all behind trained embeddings;
/// before it no layer has a backward.
class Followed {
 public:
  explicit Followed(bool all) : all_(all) {}
  bool reads(const Layer& layer) const {
    return all_ || values_.contains(layer.input) || values_.contains(layer.other);
  }
  void add(const Layer& layer) {
    if (reads(layer) || !layer.adapters.empty()) values_.insert(layer.output);
  }

 private:
  bool all_;
  std::set<std::uint32_t> values_;
};

void add_adapters(Unit& unit, std::uint32_t number, const Adaptation& how, Followed& followed) {
  const Lora& lora = *how.lora;
  const bool quantized = how.linear != StoredAs::model;
  const bool wide = quantized && how.others == StoredAs::fp32;
  const Attention heads = heads_of(unit);
  for (Layer& layer : unit.layers) {
    const bool reads = followed.reads(layer);
    if (!reads)
      skip_backward(std::span(unit.operators)
                        .subspan(layer.first_operator, layer.end_operator - layer.first_operator));
    for (std::uint32_t side = 0; side < layer.names.size(); ++side) {
      const std::string& name = layer.names[side];
      const bool all = holds(lora.targets, "all_linear") && name != "lm_head";
      const std::vector<std::int64_t> parts = parts_of(name, layer.channels[side], heads, lora);
      if (!all && !holds(lora.targets, name) && parts.empty()) continue;
      const std::int64_t out =
          parts.empty() ? layer.channels[side] : std::accumulate(parts.begin(), parts.end(), 0L);
      const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, parts.size()));
      const auto first = static_cast<std::uint32_t>(unit.tensors.size());
      layer.adapters.push_back({.side = side,
                                .rank = count * lora.rank,
                                .unit = number,
                                .parameter = first,
                                .dropout = lora.dropout,
                                .up = out * lora.rank,
                                .padded = out < layer.channels[side] ? out : 0});
      std::optional<ParameterShare> down, up;
      if (!unit.shares.empty()) std::tie(down, up) = shares_of_adapter(unit, layer);
      add_tensor(unit, layer.in.channels * lora.rank * count, lora.storage, down);
      add_tensor(unit, out * lora.rank, lora.storage, up);
      add_operators(
          unit, layer, out, lora,
          {.quantized = quantized, .reads_fp32 = wide && name != "o", .input_gradient = reads});
    }
    followed.add(layer);
  }
}

/// PEFT keeps a module to save as it was, frozen, and trains a copy of it, of its type, which runs.
void copy_module(Unit& unit, std::uint32_t tensor) {
  unit.traits[tensor].trained = true;
  unit.kept_copies += unit.tensors[tensor];
  for (Operator& op : unit.operators) {
    const bool logits = op.kind == OperatorKind::matmul &&
                        op.parameter_elements == static_cast<double>(unit.tensors[tensor]);
    if (!logits && op.kind != OperatorKind::embedding) continue;
    op.frozen = false;
    op.backward_flops = logits ? 2 * op.forward_flops : 0;
    op.backward_elements = (logits ? 2 : 1.5) * op.forward_elements;
  }
}

void save_modules(Model& model, const Lora& lora) {
  if (holds(lora.modules_to_save, "embeddings")) copy_module(model.units.front(), 0);
  if (!holds(lora.modules_to_save, "lm_head")) return;
  for (Unit& unit : model.units)
    for (const Layer& layer : unit.layers)
      if (holds(layer.names, "lm_head") && !layer.tied) copy_module(unit, layer.parameter);
}

void check_targets(const Model& model, const Lora& lora) {
  const std::vector<std::string> names = linear_names(model);
  if (names.empty())
    throw std::invalid_argument(
        fmt::format("{} has no linear layers that take adapters: transformers do", model.name));
  for (const std::string& target : lora.targets) {
    const bool part = target == "q" || target == "k" || target == "v";
    if (target == "all_linear" || holds(names, target) || (part && holds(names, "qkv"))) continue;
    throw std::invalid_argument(fmt::format("{} has no linear layer \"{}\": it has {}", model.name,
                                            target, fmt::join(names, ", ")));
  }
}

}  // namespace

std::vector<std::string> linear_names(const Model& model) {
  std::vector<std::string> names;
  for (const Unit& unit : model.units)
    for (const Layer& layer : unit.layers)
      for (const std::string& name : layer.names)
        if (!holds(names, name)) names.push_back(name);
  return names;
}

std::string linear_name(const std::string& name) {
  static const std::map<std::string, std::string> kOthers = {{"qkv_proj", "qkv"},
                                                             {"query_key_value", "qkv"},
                                                             {"c_attn", "qkv"},
                                                             {"W_pack", "qkv"},
                                                             {"Wqkv", "qkv"},
                                                             {"out_proj", "o"},
                                                             {"output_proj", "o"},
                                                             {"query", "q"},
                                                             {"key", "k"},
                                                             {"value", "v"},
                                                             {"fc1", "up"},
                                                             {"fc2", "down"},
                                                             {"c_fc", "up"},
                                                             {"dense_h_to_4h", "up"},
                                                             {"dense_4h_to_h", "down"},
                                                             {"gate_up_proj", "gate_up"},
                                                             {"q_a_proj", "q_a"},
                                                             {"q_b_proj", "q_b"},
                                                             {"kv_a_proj_with_mqa", "kv_a"},
                                                             {"all-linear", "all_linear"}};
  if (const auto found = kOthers.find(name); found != kOthers.end()) return found->second;
  static const std::string kEnding = "_proj";
  return name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size()) : name;
}

Model adapt(Model model, const Adaptation& how) {
  if (how.lora) check_targets(model, *how.lora);
  Followed followed(how.lora && holds(how.lora->modules_to_save, "embeddings"));
  for (std::uint32_t number = 0; number < model.units.size(); ++number) {
    Unit& unit = model.units[number];
    const bool frozen = how.lora || (!how.frozen.empty() && how.frozen[number]);
    if (!frozen) continue;
    freeze(unit, how);
    if (how.linear != StoredAs::model) quantize(unit, how);
    if (how.linear != StoredAs::model && how.others == StoredAs::fp32) widen(unit);
    if (how.lora) add_adapters(unit, number, how, followed);
  }
  if (how.lora) save_modules(model, *how.lora);
  const char* kind = how.lora ? "adapters" : "frozen units";
  model.variant += model.variant.empty() ? kind : std::string(", ") + kind;
  for (Unit& unit : model.units) {
    if (unit.trainable_parameters() > 0) break;
    skip_backward(unit.operators);  // nothing before the first trained parameter has a gradient
  }
  if (model.trainable_parameters() == 0)
    throw std::invalid_argument("every parameter is frozen: nothing is left to train");
  return model;
}

}  // namespace rehearse::inline model
