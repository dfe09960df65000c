// Layers of transformers that are several of PyTorch's operators each, as Hugging Face's
// transformers (5.x) writes them.
#include <cmath>

#include "model/layers.hpp"
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {
namespace {

/// rotate_half: the second half, negated, before the first one; or each channel's neighbour.
Tensor half_turned(Recorder& r, const Tensor& heads, bool neighbours) {
  const std::int64_t half = heads.sizes.back() / 2, step = neighbours ? 2 : 1;
  const Tensor first = slice(r, heads, 3, half, step);
  const Tensor second = slice(r, heads, 3, heads.sizes.back() - half, step);
  if (!neighbours) return concatenate(r, {negate(r, second), first}, 3);
  const Tensor stacked =
      concatenate(r, {unsqueeze(r, negate(r, second), 4), unsqueeze(r, first, 4)}, 4, "stack");
  return reshape(r, stacked, heads.sizes);
}

/// Cosines and sines that all layers share.
struct RotaryTable {
  Tensor cosines, sines;
};

/// apply_rotary_pos_emb of one side.
Tensor turned(Recorder& r, const Tensor& x, const RotaryTable& table, bool neighbours = false) {
  const Tensor cosine = multiply(r, x, table.cosines);
  const Tensor sine = multiply(r, half_turned(r, x, neighbours), table.sines);
  return add(r, cosine, sine);
}

/// Half of a table, each number twice.
Tensor repeated_half(Recorder& r, const Tensor& table) {
  const Tensor half = slice(r, table, 3, table.sizes[3] / 2);
  const Tensor pairs = unsqueeze(r, half, 4);
  Sizes twice = pairs.sizes;
  twice[4] = 2;
  return r.call("clone", {&pairs}, twice, table.type).as(table.sizes);
}

/// Rows of a tensor in another order: the order is saved.
Tensor gathered(Recorder& r, const Tensor& input, const Tensor& order, const Sizes& sizes) {
  Tensor output = r.call("index", {&input, &order}, sizes, input.type);
  r.connect(
      output, {input},
      [&r, order, whole = input.sizes, type = input.type](const Gradients& gradients) -> Gradients {
        return {r.call("index_put", {&gradients[0], &order}, whole, type)};
      });
  return output;
}

/// Both sides of a product with a weight for each of `experts`.
Tensor grouped_product(Recorder& r, const Tensor& input, const Parameter& weights) {
  const Tensor weight = product_parameter(r, weights);
  const Tensor x = lower(r, input);
  const bool quantized = r.trait(weights.unit, weights.index).quantized();
  // One expert at a time gets its 16 bits.
  const auto widened = [&r, quantized, each = weights.sizes] {
    return quantized ? r.workspace({each[1], each[2]}, Type::float16) : undefined();
  };
  Tensor output;
  {
    const Tensor wide = widened();
    output = r.call("_grouped_mm", {&x, &weight}, Sizes{x.sizes[0], weights.sizes[1]}, x.type);
  }
  r.connect(output, {x, weight},
            [&r, widened, inputs = x.sizes, sizes = weight.sizes, type = x.type,
             w = weight.detached(), trained = weight.needs_gradient(),
             saved = weight.needs_gradient() ? x.detached() : undefined()](
                const Gradients& gradients) -> Gradients {
              const Tensor wide = widened();
              const Tensor& dy = gradients[0];
              Gradients results = {r.call("_grouped_mm", {&dy, &w}, inputs, type)};
              results.push_back(trained ? r.call("_grouped_mm", {&dy, &saved}, sizes, type,
                                                 {.role = KernelRole::weight_gradient})
                                        : undefined());
              return results;
            });
  return output;
}

/// A bias for each row's expert: gathered, which is a function's local variable, then added in
/// place.
Tensor with_expert_bias(Recorder& r, const Tensor& product, const Parameter& bias,
                        const Tensor& order, Tensor& chosen) {
  chosen = gathered(r, parameter(r, bias), order, product.sizes);
  return add_in_place(r, product, chosen);
}

/// SwiGLU of GPT-OSS: gate and up are clamped, the gate's sigmoid is of a multiple, up gets 1 more.
Tensor clamped_product(Recorder& r, const Tensor& gate, const Tensor& up) {
  const Unary clamp{"clamp", "clamp_backward"};
  const Tensor low = unary_of_input(r, gate, clamp);
  const Tensor between = unary_of_input(r, up, clamp);
  const Tensor glu = multiply(r, low, unary_of_output(r, scale(r, low), kSigmoid));
  return multiply(r, add_number(r, between), glu);
}

/// What stands between an expert's products as one kernel, which keeps its input, and where it
/// multiplies by the router's weights these, too.
Tensor fused_rows(Recorder& r, const Tensor& first, const Tensor& weights, std::int64_t channels) {
  Tensor output = r.call("fused_experts", {&first}, Sizes{first.sizes[0], channels}, first.type);
  Tensors inputs = {first};
  if (weights.defined) inputs.push_back(weights);
  r.connect(output, inputs,
            [&r, x = first.detached(),
             weights = weights.detached()](const Gradients& gradients) -> Gradients {
              Gradients results = {
                  r.call("fused_experts_backward", {&gradients[0], &x}, x.sizes, x.type)};
              if (weights.defined) results.push_back(r.take(weights.sizes, weights.type));
              return results;
            });
  return output;
}

/// Sum of each token's rows.
Tensor summed(Recorder& r, const Tensor& rows, const Sizes& sizes) {
  Tensor output = r.call("sum", {&rows}, sizes, rows.type);
  r.connect(output, {rows},
            [&r, wide = rows.sizes, type = rows.type](const Gradients& gradients) -> Gradients {
              return {r.call("clone", {&gradients[0]}, wide, type)};
            });
  return output;
}

}  // namespace

Player::Value Player::unpack_heads(const Layer& layer) {
  if (recorder_.compiled()) return chunk(recorder_, input(layer), 3);
  const Tensor& packed = input(layer);
  const Sizes four = {packed.sizes[0], packed.sizes[1], 3, packed.sizes[2] / 3};
  const Tensor whole = clone(recorder_, reshape(recorder_, packed, four));
  Value sides;
  for (int side = 0; side < 3; ++side) sides.push_back(select(recorder_, whole, 2));
  return sides;
}

/// torch.cat with what is not rotated (Phi-3, GPT-NeoX) leaves it head by head in memory.
Tensor Player::partly_turned(const Attention& o, const Tensor& x, const Value& sides) {
  const RotaryTable table{sides[0], sides[1]};
  Recorder& r = recorder_;
  const bool neighbours = o.spelling.neighbours;
  if (!o.partial) {
    const Tensor wide = o.spelling.widens_heads ? to(r, x, Type::float32) : x;
    const Tensor made = turned(r, wide, table, neighbours);
    return o.spelling.wide_rotation || o.spelling.widens_heads ? to(r, made, x.type) : made;
  }
  const std::int64_t width = o.rotated();
  const Tensor first = turned(r, slice(r, x, 3, width), table, neighbours);
  Tensor rest = slice(r, x, 3, o.head_width - width);
  return concatenate(r, {first, rest}, 3);
}

Player::Value Player::rotate_shared(const Layer& layer) {
  const Attention& o = layer.attention;
  Value sides = heads_of(recorder_, values_.at(layer.input), o);
  Value table = rotary_;
  if (o.spelling.repeats_table && !recorder_.compiled())
    for (Tensor& one : table) one = repeated_half(recorder_, one);
  for (std::size_t i : {0, 1}) {
    const Tensor& x = sides[i];
    sides[i] = recorder_.compiled() ? fused_copy(recorder_, x) : partly_turned(o, x, table);
  }
  return sides;
}

Tensor Player::gelu_new(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& x = input(layer);
  if (r.compiled()) return unary_of_input(r, x, kGelu);
  const Tensor half = scale(r, x);
  const Tensor cube = power(r, r.autocast() ? to(r, x, Type::float32) : x);
  const Tensor small = scale(r, cube);
  const Tensor sum = add(r, x, small);
  const Tensor inner = scale(r, sum);
  const Tensor tanh = unary_of_output(r, inner, kTanh);
  const Tensor one = add_number(r, tanh);
  return multiply(r, half, one);
}

Tensor Player::gelu_fast(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& x = input(layer);
  if (r.compiled()) return unary_of_input(r, x, kGelu);
  const Tensor half = scale(r, x);
  const Tensor narrow = scale(r, x);
  const Tensor square = multiply(r, scale(r, x), x);
  const Tensor factor = add_number(r, square);
  const Tensor tanh = unary_of_output(r, multiply(r, narrow, factor), kTanh);
  const Tensor one = add_number(r, tanh);
  return multiply(r, half, one);
}

Tensor Player::capped(const Tensor& logits) {
  if (recorder_.compiled()) return unary_of_input(recorder_, logits, kTanh);
  const Tensor divided = scale(recorder_, logits, "div");
  const Tensor tanh = unary_of_output(recorder_, divided, kTanh);
  return scale(recorder_, tanh);
}

Player::Value Player::head_norm(const Layer& layer) {
  const Attention& o = layer.attention;
  Value sides = values_.at(layer.input);
  if (o.spelling.heads_first) sides = heads_of(recorder_, sides, o);
  if (sides.size() == 1)
    sides = split(recorder_, sides[0], 2,
                  {o.heads * o.head_width, o.kv_heads * o.head_width, o.kv_heads * o.values()});
  const std::int64_t counts[] = {o.heads, o.kv_heads};
  for (std::uint32_t i : {0U, 1U}) {
    const std::int64_t width = layer.bias ? counts[i] * o.head_width : o.head_width;
    const bool by_token = !layer.bias && !o.spelling.heads_first;
    if (by_token)
      sides[i] = reshape(recorder_, sides[i],
                         {sides[i].sizes[0], sides[i].sizes[1], counts[i], o.head_width});
    sides[i] = rms_norm(recorder_, sides[i],
                        {.scale = {layer.unit, layer.parameter + i, width}, .form = layer.norm});
    if (by_token) sides[i] = transpose(recorder_, sides[i], 1, 2);
  }
  return sides;
}

// Of the low-rank keys: norm, product, one copy into keys; of the queries a rotated copy.
Player::Value Player::latent_heads(const Layer& layer) {
  Recorder& r = recorder_;
  const Latent& o = layer.latent;
  const std::int64_t tokens = r.batch() * layer.in.positions();
  const Tensors parts = split(r, input(layer), 2, {o.key_rank, o.rotated_width});
  const Tensor normed = rms_norm(r, parts[0], {.scale = {layer.unit, layer.parameter, o.key_rank}});
  const std::int64_t width = o.heads * (o.plain_width + o.value_width);
  const std::int64_t all = r.batch() * layer.out.positions();
  const Tensor both = linear(r, normed,
                             {.weight = {layer.unit, layer.parameter + 1, {width, o.key_rank}},
                              .out = width,
                              .gathered = all > tokens ? all : 0});
  if (!layer.kept_products.empty() && layer.kept_products.front()) r.keep(both);
  const auto heads_side_by_side = [&](const Tensor& x, std::int64_t heads) {
    const Sizes four = {x.sizes[0], x.sizes[1], heads, x.sizes[2] / heads};
    return transpose(r, reshape(r, x, four), 1, 2);
  };
  const auto turn = [&](const Tensor& x) { return turned(r, x, {rotary_[0], rotary_[1]}); };
  const Tensors queries =
      split(r, heads_side_by_side(other(layer), o.heads), 3, {o.plain_width, o.rotated_width});
  const Tensor turned_queries = turn(queries[1]);
  const Tensor turned_key =
      turn(heads_side_by_side(all > tokens ? exchanged(r, parts[1], all) : parts[1], 1));
  const Tensor whole_queries = concatenate(r, {queries[0], turned_queries}, 3);
  const Tensors keys =
      split(r, heads_side_by_side(both, o.heads), 3, {o.plain_width, o.value_width});
  Sizes key = keys[0].sizes;
  key[3] = o.rotated_width;
  const Tensor whole_keys = concatenate(r, {keys[0], expand(r, turned_key, key)}, 3);
  return {whole_queries, whole_keys, keys[1]};
}

namespace {

struct Routing {
  Tensor order, experts, weights;  ///< rows by expert
};

/// The router's softmax in fp32, the largest of each token, and rows sorted by expert.
Routing route(Recorder& r, const Tensor& logits, std::int64_t rows) {
  const Tensor wide = to(r, logits, Type::float32);
  const Tensor shares = unary_of_output(r, wide, kSoftmax);
  const Tensor indices = r.take(rows, Type::int64);
  const Tensor largest = gathered(r, shares, indices, {rows, 1});
  const Tensor normed = multiply(r, largest, scale(r, largest));
  Routing routing;
  routing.experts = r.take(rows, Type::int64);
  routing.order = r.take(rows, Type::int64);
  r.record("sort", {&indices}, {&routing.experts, &routing.order});
  routing.weights = gathered(r, normed, routing.order, {rows, 1});
  return routing;
}

}  // namespace

Tensor Player::between_products(const ExpertGroup& o, const Tensor& first, const Tensor& weights) {
  Recorder& r = recorder_;
  if (r.compiled())
    return fused_rows(r, first, o.weighs_activation ? weights : undefined(), o.width);
  Tensor made;
  if (o.gated) {
    const Tensors halves = chunk(r, first, 2);
    made = o.clamped ? clamped_product(r, halves[0], halves[1])
                     : multiply(r, unary_of_input(r, halves[0], kSilu), halves[1]);
  } else {
    made = power(r, unary_of_output(r, first, kRelu));
  }
  return o.weighs_activation ? multiply(r, made, weights) : made;
}

Tensor Player::experts(const Layer& layer) {
  Recorder& r = recorder_;
  const ExpertGroup& o = layer.experts;
  const std::int64_t tokens = r.batch() * layer.in.positions();
  const std::int64_t hidden = o.latent > 0 ? o.latent : layer.in.channels;
  const auto times = [](std::int64_t count, double factor) {
    return static_cast<std::int64_t>(std::llround(static_cast<double>(count) * factor));
  };
  const std::int64_t rows = times(tokens * o.active, filled(o));
  const std::int64_t got = times(rows, o.imbalance);
  const std::int64_t computed = got * o.sharing;
  std::uint32_t next = layer.parameter;
  const auto weight = [&](const Sizes& sizes) { return Parameter{layer.unit, next++, sizes}; };
  LinearOptions router{.weight = weight({o.count, layer.in.channels}), .out = o.count};
  router.wide = o.wide_router;
  if (o.biases) router.bias = weight(o.count);
  const Routing routing = route(r, linear(r, input(layer), router), rows);
  // Behind the experts' two.
  const auto projected = [&](const Tensor& in, std::uint32_t which, std::int64_t out) {
    const Parameter product{layer.unit, layer.parameter + 3 + which, {out, in.sizes.back()}};
    return linear(r, in, {.weight = product, .out = out});
  };
  const Tensor x = o.latent > 0 ? projected(input(layer), 0, hidden) : input(layer);
  Tensor biases;
  const auto product = [&](const Tensor& in, std::int64_t wide) {
    const Parameter weights = weight({o.own(), wide, in.sizes.back()});
    const Tensor out = grouped_product(r, in, weights);
    if (!o.biases) return out;
    return with_expert_bias(r, out, weight({o.own(), wide}), routing.experts, biases);
  };
  // To the ranks that hold the experts, sorted by expert there, and copies to those that share one.
  const auto dispatched = [&](Tensor sent) {
    if (o.held > 0) sent = exchanged(r, sent, got);
    if (o.held > 1) sent = gathered(r, sent, routing.order, {got, hidden});
    return o.sharing > 1 ? exchanged(r, sent, computed) : sent;
  };
  const auto combined = [&](Tensor made) {
    if (o.sharing > 1) made = exchanged(r, made, got);
    if (o.held > 1) made = gathered(r, made, routing.order, {got, hidden});
    return o.held > 0 ? exchanged(r, made, rows) : made;
  };
  const Tensor by_token = reshape(r, x, {tokens, hidden});
  Tensor activated;
  {
    const Tensor selected = dispatched(gathered(r, by_token, routing.order, {rows, hidden}));
    const Tensor first = product(selected, o.wide());
    const bool whole = r.remakes(o.remakes_activation || layer.remade);
    activated = between_products(o, first, routing.weights);
    r.remakes(whole);
  }
  const Tensor out = combined(product(activated, hidden));
  activated = undefined();
  Tensor back = out;
  if (!o.weighs_activation)
    back = gathered(r, multiply(r, out, routing.weights), routing.order, {rows, hidden});
  const Tensor sum = reshape(r, to(r, summed(r, back, {tokens, hidden}), x.type), x.sizes);
  return o.latent > 0 ? projected(sum, 1, layer.in.channels) : sum;
}

Tensor Player::gate(const Layer& layer) {
  Recorder& r = recorder_;
  const Parameter weight{layer.unit, layer.parameter, {1, layer.in.channels}};
  const Tensor logit = linear(r, input(layer), {.weight = weight, .out = 1});
  return multiply(r, unary_of_output(r, logit, kSigmoid), other(layer));
}

// Of a vision transformer: a copy behind the class's vector, and the sum with the table.
Tensor Player::class_token(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& patches = input(layer);
  const Tensor token = parameter(r, {layer.unit, 0, {1, 1, layer.out.channels}});
  const Tensor rows = reshape(r, patches,
                              {patches.sizes[0], patches.sizes[1],
                               patches.elements() / patches.sizes[0] / patches.sizes[1]});
  const Tensor tokens = to(r, transpose(r, rows, 1, 2), token.type);
  const Tensor first = expand(r, token, {r.batch(), 1, layer.out.channels});
  const Tensor joined = concatenate(r, {first, tokens}, 1);
  const Tensor table = parameter(r, {layer.unit, 1, {1, layer.out.height, layer.out.channels}});
  return add(r, joined, table);
}

}  // namespace rehearse::tape
