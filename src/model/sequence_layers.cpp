// The layers of transformers.
#include "model/layers.hpp"

#include <algorithm>

namespace rehearse::inline model {

void Layers::embedding(const Embedding& options) {
  const Activation input = current_;
  current_.wide = !options.narrow;  // autocast leaves embeddings in the table's type
  const double elements = current_.elements();
  move(OperatorKind::embedding, 2 * elements, 3 * elements,
       static_cast<double>(options.rows * current_.channels));
  current_.gradient = true;
  record({.kind = LayerKind::embedding,
          .unit = static_cast<std::uint32_t>(units_.size() - 1),
          .parameter = options.parameter,
          .embedding = options},
         input);
  if (!options.narrow) return;
  Unit& unit = units_.back();
  unit.traits.resize(unit.tensors.size());
  unit.traits[options.parameter].storage = StoredAs::bf16;
}

void Layers::rotate(const Attention& options) {
  const std::int64_t channels = (options.heads + options.kv_heads) * options.head_width;
  const double elements = static_cast<double>(channels) * current_.positions();
  // Llama's reference code: to fp32, a product of complex numbers, and back. Its table is kept once
  // for all layers.
  move(OperatorKind::elementwise, 6 * elements, 6 * elements);
  // Eager, as Hugging Face writes it: products with cosines and sines (broadcast), halves that are
  // negated and put together, a sum of strided sides; backward the sums of both branches, too.
  Operator& turned = last().operators.back();
  turned.eager_forward = {.kernels = 10, .written = 4.5 * elements};  // of queries and of keys
  turned.eager_backward = {.kernels = 10, .written = 5.5 * elements};
  turned.bare_backward = 4;
  convert_rotated(options.spelling, elements);
  record({.kind = LayerKind::rotate, .attention = options}, current_);
}

// Of queries and keys that turn in fp32: copies of them (Cohere), of them and of their turned
// halves (ERNIE 4.5), or none, where fp32 tables make fp32 of products (OLMo); 16 bits are made
// behind.
void Layers::convert_rotated(const Spelling& spelling, double elements) {
  const auto convert = [&](double forward, double backward, bool widens) {
    append({.kind = OperatorKind::cast,
            .forward_elements = forward,
            .backward_elements = backward,
            .wide = !widens,
            .always_fp32 = true});
  };
  const double copies = spelling.widens_heads ? 1 : spelling.turns_narrow ? 2 : 0;
  if (copies > 0) convert(copies * elements, copies * elements, true);
  if (spelling.wide_rotation) convert(0, 2 * elements, true);
  if (copies > 0 || spelling.wide_rotation) convert(elements, elements, false);
}

void Layers::attention(const Attention& options) {
  const Activation input = current_;
  if (options.flash) {
    fused_attention(options);
  } else {
    materialised_attention(options);
  }
  append_heads(options, input);
  current_.channels = options.heads * options.values();
  record({.kind = LayerKind::attention,
          .unit = static_cast<std::uint32_t>(units_.size() - 1),
          .parameter = options.bias_parameter,
          .attention = options},
         input);
}

// The gradients of queries, keys and values become one: side by side, or each in zeros, and these
// are summed. Falcon indexes a key and a value for each group of queries, and copies all three.
void Layers::append_heads(const Attention& options, const Activation& input) {
  const double whole = input.elements();
  const Spelling& spelling = options.spelling;
  if (spelling.indexes) {
    const double queries =
        static_cast<double>(options.heads * options.head_width) * input.positions();
    append({.eager_forward = {.kernels = 5, .plain = 5 * queries},
            .eager_backward = {.kernels = 9, .plain = 3.4 * queries + 9 * whole}});
  } else if (spelling.slices || spelling.selects) {
    append({.eager_backward = {.kernels = 5, .plain = 10 * whole}});
  } else if (options.fused) {
    append({.eager_backward = {.kernels = 1, .plain = 2 * whole}});
  }
  if (!spelling.scales_queries) return;
  const double scaled =
      2 * static_cast<double>(options.heads * options.head_width) * input.positions();
  append({.eager_forward = {.kernels = 1, .plain = scaled},
          .eager_backward = {.kernels = 1, .plain = scaled}});
}

namespace {

/// Pairs of a query and a key that it may see, but for causality, in one of `steps` that see as
/// many keys as there are queries.
double seen_pairs(const Attention& options, double queries, double steps) {
  double keys = options.keys > 0 ? static_cast<double>(options.keys) : queries * steps;
  if (options.window > 0) keys = std::min(keys, static_cast<double>(options.window));
  return queries * keys / steps;
}

/// What one of `steps` that share a window sees of it.
Attention of_step(Attention options, std::size_t steps) {
  if (options.window > 0)
    options.window = std::max<std::int64_t>(1, options.window / static_cast<std::int64_t>(steps));
  return options;
}

}  // namespace

void Layers::flash_attention(const Attention& options, double tokens, std::size_t steps) {
  const auto output = tokens * static_cast<double>(options.heads * options.values());
  // Model FLOPs: all pairs (PaLM, appendix B), backward twice the forward, without what flash
  // recomputes.
  const double flops = 2 * seen_pairs(options, tokens, static_cast<double>(steps)) *
                       static_cast<double>(options.heads * (options.head_width + options.values()));
  append({.kind = OperatorKind::attention,
          .forward_flops = flops,
          .backward_flops = 2 * flops,
          .forward_elements = current_.elements() + output,
          .backward_elements = 2 * current_.elements() + 2 * output,
          .heads = of_step(options, steps),
          .tokens = tokens});
}

void Layers::materialised_attention(const Attention& options) {
  const double tokens = current_.positions();
  const std::int64_t keys = options.keys > 0 ? options.keys : current_.height;
  const double pairs = tokens * static_cast<double>(keys * options.heads);
  const auto append_product = [&](std::int64_t width, double columns, double inner) {
    const auto query = tokens * static_cast<double>(options.heads * width);
    const auto key = static_cast<double>(keys * options.kv_heads * width);
    const double flops = 2 * static_cast<double>(keys) * query;
    append({.kind = OperatorKind::attention,
            .forward_flops = flops,
            .backward_flops = 2 * flops,
            .forward_elements = query + key + pairs,
            .backward_elements = 2 * (query + key + pairs),
            .product = {.rows = tokens,
                        .columns = columns,
                        .inner = inner,
                        .products = static_cast<double>(options.heads)},
            .masked = options.causal && options.keys == 0});
  };
  const auto width = static_cast<double>(options.head_width);
  append_product(options.head_width, static_cast<double>(keys), width);  // scores
  Activation probabilities{.channels = options.heads, .height = current_.height, .width = keys};
  const Activation qkv = current_;
  current_ = probabilities;
  if (!options.fused_softmax) {
    move(OperatorKind::elementwise, 4 * pairs, 2 * pairs);  // scale, and add the mask (broadcast)
    EagerKernels& scaled = last().operators.back().eager_forward;
    scaled = {.kernels = 2, .moved = pairs, .written = pairs};
    // BLOOM's product scales and adds slopes itself.
    if (options.spelling.selects) scaled = {.kernels = 1, .written = pairs};
  }
  if (options.softcap) {  // a quotient, a tanh and a product
    move(OperatorKind::elementwise, 2 * pairs, 3 * pairs);
    last().operators.back().eager_forward = {.kernels = 3, .plain = 6 * pairs};
    last().operators.back().eager_backward = {.kernels = 3, .plain = 7 * pairs};
  }
  const bool sinks = options.trained_bias > 0 && !options.biased && !options.fused_softmax;
  if (sinks) {
    // GPT-OSS puts a column behind the scores, subtracts each row's largest, and leaves the column
    // out of what its softmax gives, in 16 bits.
    move(OperatorKind::elementwise, 7 * pairs, 11 * pairs);
    last().operators.back().eager_forward = {.kernels = 4, .plain = 7 * pairs};
    last().operators.back().eager_backward = {.kernels = 7, .plain = 11 * pairs};
  } else if ((options.biased && !options.spelling.selects) || options.trained_bias > 0) {
    move(OperatorKind::elementwise, 3 * pairs, pairs);
  }
  // MPT adds fp32 slopes, and masks what that makes.
  const bool wide_scores = options.table > 0 && !options.spelling.selects;
  if (wide_scores) {
    last().operators.back().eager_forward = {.kernels = 2, .moved = 2 * pairs, .written = pairs};
    last().operators.back().eager_backward = {.kernels = 2, .moved = 2 * pairs};
  }
  if (options.wide_softmax && !options.fused_softmax && !sinks) {
    // softmax(dtype=float32): of bf16 an fp32 copy is made before, and of its gradient bf16
    // (aten/src/ATen/native/SoftMax.cpp); what it gives becomes 16 bits again.
    append({.kind = OperatorKind::cast,
            .forward_elements = wide_scores ? 0 : pairs,
            .backward_elements = pairs,
            .always_fp32 = true,
            .by_row = true});
    append({.kind = OperatorKind::normalization,
            .forward_elements = 2 * pairs,
            .backward_elements = 3 * pairs,
            .always_fp32 = true,
            .by_row = true});
    append({.kind = OperatorKind::cast,
            .forward_elements = pairs,
            .backward_elements = pairs,
            .wide = true,
            .always_fp32 = true});
  } else {
    cast(true);
    move(OperatorKind::normalization, 2 * pairs, 3 * pairs);  // softmax
    last().operators.back().by_row = true;
  }
  if (options.dropout) count_dropout();
  cast(false);
  current_ = qkv;
  const auto values = static_cast<double>(options.values());
  append_product(options.values(), values,
                 static_cast<double>(keys));  // probabilities times values
}

void Layers::swiglu(bool gelu) {
  const Activation input = current_;
  current_.channels /= 2;
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 3 * elements);  // SiLU
  move(OperatorKind::elementwise, 3 * elements, 5 * elements);  // the product
  record({.kind = LayerKind::swiglu, .gelu = gelu}, input);
}

void Layers::select(std::int64_t positions) {
  const Activation input = current_;
  const double before = current_.elements();
  current_.height = positions;
  current_.width = 1;
  // Backward zeroes the full gradient and scatters into it.
  move(OperatorKind::elementwise, 2 * current_.elements(), before + 2 * current_.elements());
  record({.kind = LayerKind::select}, input);
}

}  // namespace rehearse::inline model
