#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

namespace rehearse::inline model {

namespace {

struct PrecisionTraits {
  const char* name;
  double parameter, activation;  ///< bytes of an element
  bool autocast = false, master = false;
  bool named = true;  ///< in scenarios
  double narrow = 0;  ///< of linear layers of blocks; 0: as the others
  bool fp16 = false;  ///< two bytes are fp16, not bf16
};
constexpr std::array<PrecisionTraits, 13> kPrecisions = {
    {{.name = "fp32", .parameter = 4, .activation = 4},
     {.name = "tf32", .parameter = 4, .activation = 4},
     {.name = "bf16", .parameter = 4, .activation = 2, .autocast = true},
     {.name = "fp16", .parameter = 4, .activation = 2, .autocast = true, .fp16 = true},
     {.name = "bf16_pure", .parameter = 2, .activation = 2},
     {.name = "bf16_master", .parameter = 2, .activation = 2, .master = true},
     {.name = "fp16_master", .parameter = 2, .activation = 2, .master = true, .fp16 = true},
     {.name = "bf16_pure_autocast", .parameter = 2, .activation = 2, .autocast = true},
     {.name = "fp8", .parameter = 2, .activation = 2, .master = true, .narrow = 1},
     {.name = "mxfp8", .parameter = 2, .activation = 2, .master = true, .narrow = 1 + 1.0 / 32},
     {.name = "nvfp4", .parameter = 2, .activation = 2, .master = true, .narrow = 0.5 + 1.0 / 16},
     {.name = "fp16_pure", .parameter = 2, .activation = 2, .named = false, .fp16 = true},
     {.name = "fp16_pure_autocast",
      .parameter = 2,
      .activation = 2,
      .autocast = true,
      .named = false,
      .fp16 = true}}};

const PrecisionTraits& traits(Precision precision) {
  return kPrecisions.at(static_cast<std::size_t>(precision));
}

}  // namespace

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const PrecisionTraits& one : kPrecisions)
      if (one.named) names.emplace_back(one.name);
    return names;
  }();
  return kNames;
}

std::string to_string(Precision precision) { return traits(precision).name; }

Precision parse_precision(const std::string& name) {
  for (std::size_t i = 0; i < kPrecisions.size(); ++i) {
    if (kPrecisions[i].named && kPrecisions[i].name == name) return static_cast<Precision>(i);
  }
  throw std::invalid_argument(fmt::format("expected a precision, one of {}; got \"{}\"",
                                          fmt::join(precision_names(), ", "), name));
}

bool runs_math_attention(const Attention& attention, Bytes element) {
  return attention.flash && attention.kernel == AttentionKernel::sdpa && element >= Bytes(4) &&
         attention.kv_heads < attention.heads && !attention.spelling.indexes;
}

bool is_autocast(Precision precision) { return traits(precision).autocast; }

bool is_narrow(Precision precision) { return traits(precision).narrow > 0; }

Bytes narrow_element(Precision precision) { return Bytes(traits(precision).narrow); }

bool has_master_weights(Precision precision) { return traits(precision).master; }

Precision computed_in(Precision precision) {
  switch (precision) {
    case Precision::bf16_master:
      return Precision::bf16_pure;
    case Precision::fp16_master:
      return Precision::fp16_pure;
    default:
      return precision;
  }
}

bool is_bf16(Precision precision) {
  return traits(precision).activation == 2 && !traits(precision).fp16;
}

Bytes parameter_element(Precision precision) { return Bytes(traits(precision).parameter); }

Bytes activation_element(Precision precision) { return Bytes(traits(precision).activation); }

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> kNames = {
      "cross_entropy",     "cross_entropy_fp32",     "huggingface",
      "lightning_fabric",  "fused_logits",           "vocab_parallel",
      "compiled",          "accelerate_fused",       "huggingface_4_46",
      "huggingface_fused", "huggingface_4_46_fused", "lightning_loop"};
  return kNames;
}

std::string to_string(AttentionKernel kernel) {
  constexpr std::array kNames = {"sdpa",   "flash1", "flash2",   "flash3",
                                 "triton", "cudnn",  "cudnn_fp8"};
  return kNames.at(static_cast<std::size_t>(kernel));
}

std::string to_string(Loss loss) { return loss_names().at(static_cast<std::size_t>(loss)); }

std::int64_t Unit::parameters() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
}

std::int64_t Unit::trainable_parameters() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (trait(i).trained) sum += tensors[i];
  return sum;
}

Bytes stored_element(StoredAs storage, Precision precision) {
  constexpr double kRow = 4096, kBlock = 64, kBlocks = 256;
  switch (storage) {
    case StoredAs::model:
      return parameter_element(precision);
    case StoredAs::fp32:
      return Bytes(4);
    case StoredAs::bf16:
      return Bytes(2);
    case StoredAs::int8:
      return Bytes(1 + 4 / kRow);
    case StoredAs::nf4:
      return Bytes(0.5 + 4 / kBlock);
    case StoredAs::nf4_double:
      return Bytes(0.5 + (1 + 4 / kBlocks) / kBlock);
  }
  return Bytes(0);
}

Bytes stored_bytes(const Unit& unit, std::size_t tensor, Precision precision) {
  return static_cast<double>(unit.tensors[tensor]) *
         stored_element(unit.trait(tensor).storage, precision);
}

std::size_t Model::trained_tensors() const {
  std::size_t tensors = 0;
  for (const Unit& unit : units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) tensors += unit.trait(i).trained ? 1 : 0;
  return tensors;
}

std::int64_t Model::trainable_parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.trainable_parameters();
  return sum;
}

/// One of many alike: its name ends with a number ("layers.7").
bool is_block(const Unit& unit) {
  const std::size_t dot = unit.name.rfind('.');
  return dot != std::string::npos && dot + 1 < unit.name.size() &&
         std::all_of(unit.name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, unit.name.end(),
                     [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

bool Model::is_fused(std::size_t unit) const {
  return is_compiled(unit) || (compile == Compile::modules && is_block(units[unit]));
}

bool Model::is_compiled(std::size_t unit) const {
  return compile >= Compile::whole || (compile == Compile::blocks && is_block(units[unit]));
}

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.parameters();
  return sum;
}

std::int64_t Model::active_parameters() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units) sum += unit.parameters() - unit.idle_parameters;
  return sum;
}

double Model::narrow_parameters() const {
  double sum = 0;
  for (const Unit& unit : units)
    for (const Operator& op : unit.operators) sum += op.narrows ? op.parameter_elements : 0;
  return sum;
}

double Unit::forward_flops() const {
  double sum = 0;
  for (const Operator& op : operators) sum += op.forward_flops;
  return sum;
}

double Model::forward_flops() const {
  double sum = 0;
  for (const Unit& unit : units) sum += unit.forward_flops();
  return sum;
}

double seen_share(const Operator& op) {
  if (op.kind != OperatorKind::attention) return 1;
  const bool fused = op.tokens > 0;
  const double tokens = fused ? op.tokens : op.product.rows;
  if (!(fused ? op.heads.causal : op.masked) || tokens < 1) return 1;
  const auto window = static_cast<double>(op.heads.window);
  const double seen = window > 0 ? std::min(window, tokens) : tokens;
  return 1 - (seen - 1) / (2 * tokens);
}

double Model::seen_flops_per_sample() const {
  double sum = 0;
  for (const Unit& unit : units)
    for (const Operator& op : unit.operators)
      sum += (op.forward_flops + op.backward_flops) * seen_share(op);
  return sum;
}

bool Model::has_operator(OperatorKind kind) const {
  return std::any_of(units.begin(), units.end(), [kind](const Unit& unit) {
    return std::any_of(unit.operators.begin(), unit.operators.end(),
                       [kind](const Operator& op) { return op.kind == kind; });
  });
}

double Model::flops_per_sample() const {
  double sum = 0;
  for (const Unit& unit : units) {
    for (const Operator& op : unit.operators) sum += op.forward_flops + op.backward_flops;
  }
  return sum;
}

}  // namespace rehearse::inline model
