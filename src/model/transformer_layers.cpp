// The layers of transformers beyond GPT-2's and Llama's: latent attention, experts, images as
// tokens.
#include <algorithm>

#include "model/layers.hpp"

namespace rehearse::inline model {

void Layers::latent_heads(const LatentAttention& latent, std::int64_t heads,
                          const Activation& queries) {
  const Activation input = current_;
  const std::int64_t width = latent.plain_width + latent.value_width;
  cast(true);
  current_.channels = latent.key_rank;
  parameter(latent.key_rank);
  move(OperatorKind::normalization, 2 * current_.elements(), 5 * current_.elements(),
       static_cast<double>(latent.key_rank));
  composes_rms_norm(last().operators.back(), current_.elements());
  cast(false);
  current_.channels = input.channels;
  enter_columns();
  const std::size_t begin = last().operators.size();
  parameter(latent.key_rank * heads * width, ParameterShare::sharded);
  product(latent.key_rank, heads * width, false);
  narrow_last_product(true);
  leave_columns(input, begin);
  // Rotation of the queries' and of the shared key's last channels; both sides are put together.
  const std::int64_t sides = latent.rotation == LatentRotation::none ? 1 : 2;
  const std::int64_t side = heads * (latent.plain_width + latent.rotated_width);
  current_.channels = sides * side;
  move(OperatorKind::elementwise, 3 * current_.elements(), 3 * current_.elements());
  current_.channels = 2 * side + heads * latent.value_width;
  current_.gradient = true;
  record({.kind = LayerKind::latent_heads,
          .other = queries.value,
          .latent = {heads, latent.key_rank, latent.plain_width, latent.rotated_width,
                     latent.value_width, latent.rotation}},
         input, 2);
}

void Layers::head_norm(const Attention& options, bool all_heads, NormForm form) {
  const std::int64_t queries = options.heads * options.head_width;
  const std::int64_t keys = options.kv_heads * options.head_width;
  const Activation input = current_;
  cast(true);
  // Of each head: the ranks have other heads, of which each gradient is a sum.
  const auto share = all_heads ? ParameterShare::sharded : ParameterShare::summed;
  if (form != NormForm::plain) {
    parameter(all_heads ? queries : options.head_width, share);
    parameter(all_heads ? keys : options.head_width, share);
  }
  const double elements = static_cast<double>(queries + keys) * current_.positions();
  move(OperatorKind::normalization, 2 * elements, 5 * elements);
  composes_rms_norm(last().operators.back(), elements);
  cast(false);
  record({.kind = LayerKind::head_norm, .bias = all_heads, .norm = form, .attention = options},
         input, 2);
}

void Layers::cross_attention(const Attention& options, const Activation& queries) {
  const Activation keys = current_;
  current_ = queries;
  if (options.flash) {
    flash_attention(options, current_.positions(), 1);
  } else {
    materialised_attention(options);
  }
  current_.channels = options.heads * options.values();
  record({.kind = LayerKind::cross_attention, .other = keys.value, .attention = options}, queries);
}

void Layers::router(const ExpertGroup& options) {
  const double tokens = current_.positions();
  const Activation input = current_;
  cast(false);
  parameter(options.count * current_.channels);
  if (options.biases) parameter(options.count);
  if (options.router.wide) to_float();
  product(current_.channels, options.count, options.biases);
  last().operators.back().always_fp32 = options.router.wide;
  current_.wide = false;
  current_.channels = options.count;
  cast(true);
  move(OperatorKind::normalization, 2 * current_.elements(), 3 * current_.elements());
  const double chosen = tokens * static_cast<double>(options.active);
  move(OperatorKind::elementwise, current_.elements() + 4 * chosen, current_.elements() + chosen);
  current_ = input;
  cast(false);
}

namespace {

struct GroupedProduct {
  double rows = 0;  ///< pairs of a token and an expert, per sample
  std::int64_t in = 0, out = 0, experts = 1;
  bool together = false;
};

/// One product per expert over the rows that it was sent.
Operator grouped(const GroupedProduct& sizes) {
  const double weights = static_cast<double>(sizes.in) * static_cast<double>(sizes.out);
  const double flops = 2 * sizes.rows * weights;
  const double elements = sizes.rows * static_cast<double>(sizes.in + sizes.out);
  return {.kind = OperatorKind::matmul,
          .forward_flops = flops,
          .backward_flops = 2 * flops,
          .forward_elements = elements,
          .backward_elements = 2 * elements,
          .parameter_elements = weights * static_cast<double>(sizes.experts),
          .product = {.rows = sizes.rows,
                      .columns = static_cast<double>(sizes.out),
                      .inner = static_cast<double>(sizes.in),
                      .weights = static_cast<double>(sizes.experts),
                      .together = sizes.together},
          .narrows = true,
          .quantized_input = sizes.rows * static_cast<double>(sizes.in)};
}

/// What eager experts of Hugging Face's transformers 5 compute around their grouped products
/// (integrations/moe.py, grouped_mm_experts_forward), of elements that are `sent` to experts and
/// as `wide` as these. Rows of absent experts are masked before the first product and behind both,
/// and in each one's backward; backward of a gather adds rows up by index. An H200's profile of
/// Qwen3-MoE has them (tests/validation/hopper).
struct EagerExperts {
  EagerKernels forward, backward;
};

/// Sorting, counting, the gather, and a mask in place; backward a mask, and rows added up.
EagerExperts gathered(double sent) {
  return {.forward = {.kernels = 12, .written = sent, .plain = 2 * sent},
          .backward = {.kernels = 6, .written = 2 * sent, .plain = 3 * sent}};
}

/// A mask as wide as both halves, SiLU and a product of halves, which are strided; backward the
/// product's two, SiLU's, both halves side by side, and the mask's.
EagerExperts activated(double wide) {
  return {.forward = {.kernels = 4, .written = 4 * wide, .plain = 4 * wide},
          .backward = {.kernels = 7, .written = 5 * wide, .plain = 8 * wide}};
}

/// GPT-OSS's: two clamps of each other channel, a multiple, its sigmoid, a sum and two products;
/// backward compares, chooses, and fills zeros between channels.
EagerExperts clamped(double wide) {
  return {.forward = {.kernels = 7, .written = 2 * wide, .plain = 12 * wide},
          .backward = {.kernels = 17, .plain = 44 * wide}};
}

/// One expert after the other, as transformers' eager loop has them: each picks its tokens and
/// their weights by index, and adds what it gives by index. All experts' weights are one parameter.
/// The gradient of one's slice is as large as that: zeros are filled in, and it is added to the
/// others' (SelectBackward; four times its bytes). An H200's profiles of Qwen3-MoE and Mixtral have
/// these kernels (tests/validation/hopper).
Operator one_by_one(double experts, double weights) {
  return {.kind = OperatorKind::elementwise,
          .backward_elements = 1,
          .sliced_gradients = 4 * experts * weights,
          .eager_forward = {.kernels = 13 * experts}};
}

/// The same loop's launches backward.
Operator one_by_one_backward(double experts) {
  return {.kind = OperatorKind::elementwise, .eager_backward = {.kernels = 24 * experts}};
}

/// A mask, the weights, the gather back, and a sum; backward rows by index, both factors' gradients
/// and a mask.
EagerExperts put_back(double sent) {
  return {.forward = {.kernels = 8, .written = 2 * sent, .plain = 5 * sent},
          .backward = {.kernels = 8, .written = 3 * sent, .plain = 7 * sent}};
}

/// Megatron-LM's weighted_bias_quick_geglu_impl (core/fusions/fused_bias_geglu.py) clamps in front
/// of its fused kernel: gate and up, each a kernel, and torch.cat of both. Backward the parts of
/// the sum's gradient go through one comparison and a choice, and through two, their conjunction
/// and a choice, whose masks are bytes; both halves become one tensor. Halves are views of chunk(),
/// whose rows lie apart: PyTorch's kernels for these are not vectorized (TensorIterator).
Operator megatron_clamps(double wide) {
  return {.kind = OperatorKind::elementwise,
          .forward_elements = 8 * wide,
          .backward_elements = 15 * wide,
          .eager_forward = {.kernels = 3, .written = 2 * wide, .plain = 4 * wide},
          .eager_backward = {.kernels = 7, .written = 5 * wide, .plain = 5.5 * wide},
          .library = true,
          .between_experts = true};
}

/// TEGroupedMLP._apply_bias (core/transformer/moe/experts.py): the second products' biases times
/// the router's weights, one expert after the other, in fp32, which torch.cat joins and a last
/// kernel makes 16 bits. Forward an element is written by the product (4 bytes), read with the
/// expert's output and written by the sum (10), joined (8) and converted (6). Backward it is
/// converted (6), and for the output (6) and joined (4); its product with the weights is written
/// and summed (12), as is that with the bias (12). Kernels whose operands are broadcast or of two
/// types are not vectorized: forward the product and the sum, backward the first conversion and
/// both products. TransformerEngine's fused experts have all in the product's epilogue.
Operator megatron_biases(double elements, double experts) {
  return {.kind = OperatorKind::elementwise,
          .forward_elements = 14 * elements,
          .backward_elements = 20 * elements,
          .eager_forward = {.kernels = 2 * experts + 2,
                            .moved = 3.5 * elements,
                            .written = 2 * elements},
          .eager_backward = {.kernels = 6 * experts + 1,
                             .moved = 3.5 * elements,
                             .written = 3 * elements,
                             .plain = 2 * elements},
          .library = true};
}

}  // namespace

void Layers::experts(const ExpertGroup& options) {
  const Activation input = current_;
  const std::int64_t hidden = options.latent > 0 ? options.latent : input.channels;
  router(options);
  if (options.latent > 0) product(input.channels, hidden, false);
  current_.channels = hidden;
  const double rows = current_.positions() * static_cast<double>(options.active) * filled(options);
  const double sent = rows * static_cast<double>(hidden);
  const double computed = rows * options.received();
  // The ranks of an expert sort by expert what other ranks have sorted.
  const double sorted = options.held > 1 ? computed * static_cast<double>(hidden) : 0;
  const double wide = computed * static_cast<double>(options.width);
  const std::int64_t own = options.own();
  const std::size_t before = last().tensors.size();
  const auto weight = [&](std::int64_t elements) {
    parameter(own * elements,
              options.replicas > 1 ? ParameterShare::sharded : ParameterShare::expert);
  };
  weight(options.wide() * hidden);
  if (options.biases) weight(options.wide());
  weight(hidden * options.width);
  if (options.biases) weight(hidden);
  std::int64_t owned = 0;
  for (std::size_t i = before; i < last().tensors.size(); ++i) owned += last().tensors[i];
  last().idle_parameters += owned / own * (options.count - options.active) * own / options.count;
  for (int way = 0; way < 2 && options.latent > 0; ++way) parameter(input.channels * hidden);
  exchange_counts(options);
  add_replicas(options, Direction::backward);
  const bool as_transformers = options.grouped && options.held == 0 && options.gated;
  const auto compose = [&](const EagerExperts& kernels) {
    if (!as_transformers) return;
    last().operators.back().eager_forward = kernels.forward;
    last().operators.back().eager_backward = kernels.backward;
  };
  move(OperatorKind::elementwise, 2 * sent, 2 * sent);  // gathered by expert
  compose(gathered(sent));
  dispatched_ = operators();
  exchange_tokens(options, true);
  if (sorted > 0) move(OperatorKind::elementwise, 2 * sorted, 2 * sorted);
  const double multiplied = computed / static_cast<double>(options.replicas);
  append(grouped({multiplied, hidden, options.wide(), own, options.grouped}));
  const bool as_megatron = options.weighs_activation && !options.grouped;
  if (as_megatron && options.clamped) append(megatron_clamps(wide));
  // SiLU and the product, or ReLU and its square.
  move(OperatorKind::elementwise, (options.gated ? 5 : 4) * wide, (options.gated ? 8 : 6) * wide);
  last().operators.back().between_experts = true;
  compose(options.clamped ? clamped(wide) : activated(wide));
  append(grouped({multiplied, options.width, hidden, own, options.grouped}));
  if (as_megatron && options.biases)
    append(megatron_biases(computed * static_cast<double>(hidden), static_cast<double>(own)));
  if (options.eager) {
    const auto held = static_cast<double>(own);
    append(one_by_one(held, held * static_cast<double>((options.wide() + options.width) * hidden)));
    append(one_by_one_backward(held));
  }
  if (sorted > 0) move(OperatorKind::elementwise, 2 * sorted, 2 * sorted);
  combined_ = operators();
  exchange_tokens(options, false);
  // Weighted, put back, summed. Megatron-LM adds each row where it belongs; weights came before.
  const double passes = options.held > 0 ? 3 : 6;
  move(OperatorKind::elementwise, passes * sent, (options.held > 0 ? 2 : 6) * sent);
  compose(put_back(sent));
  add_replicas(options, Direction::forward);
  if (options.latent > 0) product(hidden, input.channels, false);
  current_ = input;
  current_.wide = false;
  current_.gradient = true;
  record({.kind = LayerKind::experts, .experts = options}, input,
         options.biases ? std::size_t{6} : std::size_t{options.latent > 0 ? 5U : 3U});
  Layer& made = last().layers.back();
  if (!options.as_transformers()) return;
  made.flattens = options.router.views == Router::Views::throughout;
  if (!options.router.wide_weight) return;
  last().traits.resize(last().tensors.size());
  last().traits[made.parameter].storage = StoredAs::fp32;
}

void Layers::gate(const Activation& gated) {
  const Activation input = current_;
  cast(false);
  parameter(input.channels);
  product(input.channels, 1, false);
  current_ = gated;
  const double elements = gated.elements();
  move(OperatorKind::elementwise, 2 * elements, 4 * elements);
  record({.kind = LayerKind::gate, .other = gated.value}, input, 1);
}

void Layers::shared_embedding(std::int64_t rows) {
  const Activation input = current_;
  current_.wide = true;
  const double elements = current_.elements();
  move(OperatorKind::embedding, 2 * elements, 3 * elements,
       static_cast<double>(rows * current_.channels));
  current_.gradient = true;
  record({.kind = LayerKind::embedding, .embedding = {.rows = rows}}, input);
}

void Layers::beside(const Activation& left) {
  const Activation right = current_;
  current_.channels += left.channels;
  move(OperatorKind::elementwise, 2 * current_.elements(), 2 * current_.elements());
  record({.kind = LayerKind::concatenate, .other = left.value}, right);
}

void Layers::repeat_linear(std::int64_t channels) {
  const Activation input = current_;
  enter_columns();
  const std::size_t begin = last().operators.size();
  cast(false);
  product(current_.channels, channels, false);
  current_.channels = channels;
  leave_columns(input, begin);
  record({.kind = LayerKind::linear,
          .unit = static_cast<std::uint32_t>(units_.size() - 1),
          .parameter = static_cast<std::uint32_t>(last().tensors.size() - 1),
          .channels = {channels}},
         input);
}

void Layers::class_token() {
  const Activation input = current_;
  current_.height = current_.height * current_.width + 1;
  current_.width = 1;
  current_.channels_last = true;
  current_.wide = true;  // the class's token and the positions are fp32 parameters
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, elements);  // torch.cat
  move(OperatorKind::elementwise, 3 * elements, 2 * elements);
  record({.kind = LayerKind::class_token, .unit = static_cast<std::uint32_t>(units_.size() - 1)},
         input);
}

}  // namespace rehearse::inline model
