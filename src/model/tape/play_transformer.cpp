// Layers of transformers that are several of PyTorch's operators each, as Hugging Face's
// transformers (5.x) writes them.
#include <cmath>

#include "model/layers.hpp"
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {
namespace {

/// -x: nothing is saved.
Tensor negate(Recorder& r, const Tensor& input) {
  Tensor output = r.take(input.elements, input.type);
  r.connect(output, {input}, [&r](const Gradients& gradients) -> Gradients {
    return {r.take(gradients[0].elements, gradients[0].type)};
  });
  return output;
}

/// rotate_half: the second half, negated, before the first one.
Tensor half_turned(Recorder& r, const Tensor& heads) {
  const Tensor first = slice(r, heads, heads.elements / 2);
  const Tensor second = slice(r, heads, heads.elements - heads.elements / 2);
  return concatenate(r, {negate(r, second), first}, false);
}

/// Rows of a tensor in another order: the order is saved.
Tensor gathered(Recorder& r, const Tensor& input, const Tensor& order, std::int64_t elements) {
  Tensor output = r.take(elements, input.type);
  r.connect(output, {input},
            [&r, order, whole = input.elements, type = input.type](const Gradients&) -> Gradients {
              return {r.take(whole, type)};
            });
  return output;
}

/// Both sides of a product with a weight for each of `experts`.
Tensor grouped_product(Recorder& r, const Tensor& input, const Parameter& weights,
                       std::int64_t elements, std::int64_t experts) {
  const Tensor weight = product_parameter(r, weights);
  const Tensor x = lower(r, input);
  const bool quantized = r.trait(weights.unit, weights.index).quantized();
  // One expert at a time gets its 16 bits.
  const auto widened = [&r, quantized, each = weights.elements / experts] {
    return quantized ? r.workspace(each, Type::float16) : undefined();
  };
  Tensor output;
  {
    const Tensor wide = widened();
    output = r.take(elements, x.type);
  }
  r.connect(output, {x, weight},
            [&r, widened, inputs = x.elements, elements = weight.elements, type = x.type,
             w = weight.detached(), trained = weight.needs_gradient(),
             saved = weight.needs_gradient() ? x.detached()
                                             : undefined()](const Gradients&) -> Gradients {
              const Tensor wide = widened();
              Gradients results = {r.take(inputs, type)};
              results.push_back(trained ? r.take(elements, type) : undefined());
              return results;
            });
  return output;
}

/// A bias for each row's expert: gathered, which is a function's local variable, then added in
/// place.
Tensor with_expert_bias(Recorder& r, const Tensor& product, const Parameter& bias,
                        const Tensor& order, Tensor& chosen) {
  chosen = gathered(r, parameter(r, bias), order, product.elements);
  return add_in_place(r, product, chosen);
}

/// SwiGLU of GPT-OSS: gate and up are clamped, the gate's sigmoid is of a multiple, up gets 1 more.
Tensor clamped_product(Recorder& r, const Tensor& gate, const Tensor& up) {
  const Tensor low = unary_of_input(r, gate);
  const Tensor between = unary_of_input(r, up);
  const Tensor glu = multiply(r, low, unary_of_output(r, scale(r, low)));
  return multiply(r, add_number(r, between), glu);
}

/// What stands between an expert's products as one kernel, which keeps its input, and where it
/// multiplies by the router's weights these, too.
Tensor fused_rows(Recorder& r, const Tensor& first, const Tensor& weights, std::int64_t elements) {
  Tensor output = r.take(elements, first.type);
  Tensors inputs = {first};
  if (weights.defined) inputs.push_back(weights);
  r.connect(
      output, inputs,
      [&r, x = first.detached(), weights = weights.detached()](const Gradients&) -> Gradients {
        Gradients results = {r.take(x.elements, x.type)};
        if (weights.defined) results.push_back(r.take(weights.elements, weights.type));
        return results;
      });
  return output;
}

/// Sum of each token's rows.
Tensor summed(Recorder& r, const Tensor& rows, std::int64_t elements) {
  Tensor output = r.take(elements, rows.type);
  r.connect(output, {rows},
            [&r, wide = rows.elements, type = rows.type](const Gradients&) -> Gradients {
              Tensor expanded = r.take(wide, type);
              return {expanded};
            });
  return output;
}

}  // namespace

/// Queries, keys and values: of one product, or gathered from other ranks, they are its parts.
Player::Value Player::heads(const Layer& layer) {
  const Attention& o = layer.attention;
  const Value& sides = values_.at(layer.input);
  if (sides.size() > 1) return sides;
  return split(recorder_, sides[0],
               {o.heads * o.head_width, o.kv_heads * o.head_width, o.kv_heads * o.head_width});
}

Player::Value Player::unpack_heads(const Layer& layer) {
  if (recorder_.compiled()) return chunk(recorder_, input(layer), 3);
  const Tensor whole = copy(recorder_, input(layer));
  Value sides;
  for (int side = 0; side < 3; ++side) sides.push_back(slice(recorder_, whole, whole.elements / 3));
  return sides;
}

Player::Value Player::rotate_shared(const Layer& layer) {
  const Attention& o = layer.attention;
  Value sides = heads(layer);
  if (!rotary_.storage) {
    const std::int64_t elements = layer.in.height * o.head_width;
    rotary_ = recorder_.take(2 * elements, sides[0].type);  // cosines and sines, of one life
  }
  for (std::size_t i : {0, 1}) {
    const Tensor& x = sides[i];
    if (recorder_.compiled()) {
      sides[i] = fused_copy(recorder_, x);
      continue;
    }
    const Tensor cosine = multiply(recorder_, x, rotary_, x.elements);
    const Tensor turned = half_turned(recorder_, x);
    const Tensor sine = multiply(recorder_, turned, rotary_, x.elements);
    sides[i] = add(recorder_, cosine, sine);
  }
  // torch.cat with what is not rotated (Phi-3, GPT-NeoX) leaves them head by head in memory.
  if (o.fused || o.partial) sides.push_back(rotary_);
  return sides;
}

Tensor Player::gelu_new(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& x = input(layer);
  if (r.compiled()) return unary_of_input(r, x);
  const Tensor half = scale(r, x);
  const Tensor cube = unary_of_input(r, r.autocast() ? to(r, x, Type::float32) : x);
  const Tensor small = scale(r, cube);
  const Tensor sum = add(r, x, small);
  const Tensor inner = scale(r, sum);
  const Tensor tanh = unary_of_output(r, inner);
  const Tensor one = add_number(r, tanh);
  return multiply(r, half, one);
}

Tensor Player::gelu_fast(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& x = input(layer);
  if (r.compiled()) return unary_of_input(r, x);
  const Tensor half = scale(r, x);
  const Tensor narrow = scale(r, x);
  const Tensor square = multiply(r, scale(r, x), x);
  const Tensor factor = add_number(r, square);
  const Tensor tanh = unary_of_output(r, multiply(r, narrow, factor));
  const Tensor one = add_number(r, tanh);
  return multiply(r, half, one);
}

Tensor Player::capped(const Tensor& logits) {
  if (recorder_.compiled()) return unary_of_input(recorder_, logits);
  const Tensor divided = scale(recorder_, logits);
  const Tensor tanh = unary_of_output(recorder_, divided);
  return scale(recorder_, tanh);
}

Player::Value Player::head_norm(const Layer& layer) {
  const Attention& o = layer.attention;
  Value sides = heads(layer);
  const std::int64_t tokens = recorder_.batch() * layer.in.positions();
  const std::int64_t counts[] = {o.heads, o.kv_heads};
  for (std::uint32_t i : {0U, 1U}) {
    const std::int64_t width = layer.bias ? counts[i] * o.head_width : o.head_width;
    sides[i] = rms_norm(recorder_, sides[i],
                        {.scale = {layer.unit, layer.parameter + i, width},
                         .channels = width,
                         .positions = layer.bias ? tokens : tokens * counts[i],
                         .form = layer.norm});
  }
  return sides;
}

// Of the low-rank keys: norm, product, one copy into keys; of the queries a rotated copy.
Player::Value Player::latent_heads(const Layer& layer) {
  Recorder& r = recorder_;
  const Latent& o = layer.latent;
  const std::int64_t tokens = r.batch() * layer.in.positions();
  const Tensors parts = split(r, input(layer), {o.key_rank, o.rotated_width});
  const Tensor normed = rms_norm(r, parts[0],
                                 {.scale = {layer.unit, layer.parameter, o.key_rank},
                                  .channels = o.key_rank,
                                  .positions = tokens});
  const std::int64_t width = o.heads * (o.plain_width + o.value_width);
  const std::int64_t all = r.batch() * layer.out.positions();
  const Tensor both = linear(r, normed,
                             {.weight = {layer.unit, layer.parameter + 1, o.key_rank * width},
                              .out = all * width,
                              .gathered = all > tokens ? all * o.key_rank : 0});
  if (!layer.kept_products.empty() && layer.kept_products.front()) r.keep(both);
  if (!rotary_.storage) rotary_ = r.take(2 * layer.out.height * o.rotated_width, both.type);
  const auto turn = [&](const Tensor& x) {
    const Tensor cosine = multiply(r, x, rotary_, x.elements);
    const Tensor turned = half_turned(r, x);
    const Tensor sine = multiply(r, turned, rotary_, x.elements);
    return add(r, cosine, sine);
  };
  const Tensors queries =
      split(r, other(layer), {o.heads * o.plain_width, o.heads * o.rotated_width});
  const Tensor turned_queries = turn(queries[1]);
  const Tensor turned_key =
      turn(all > tokens ? exchanged(r, parts[1], all * o.rotated_width) : parts[1]);
  const Tensor whole_queries = concatenate(r, {queries[0], turned_queries}, false);
  const Tensors keys = split(r, both, {o.heads * o.plain_width, o.heads * o.value_width});
  Tensor whole_keys = r.take(all * o.heads * (o.plain_width + o.rotated_width), both.type);
  r.connect(whole_keys, {keys[0], turned_key}, [](const Gradients& gradients) -> Gradients {
    return {gradients[0], gradients[0]};
  });
  // torch.cat leaves them head by head in memory, and so what attention gives.
  Value sides = {whole_queries, whole_keys, keys[1]};
  if (!r.compiled()) sides.push_back(rotary_);
  return sides;
}

namespace {

struct Routing {
  Tensor order, experts, weights;  ///< rows by expert
};

/// The router's softmax in fp32, the largest of each token, and rows sorted by expert.
Routing route(Recorder& r, const Tensor& logits, std::int64_t rows) {
  const Tensor wide = to(r, logits, Type::float32);
  const Tensor shares = unary_of_output(r, wide);
  const Tensor indices = r.take(rows, Type::int64);
  const Tensor largest = gathered(r, shares, indices, rows);
  const Tensor normed = multiply(r, largest, scale(r, largest));
  Routing routing;
  routing.experts = r.take(rows, Type::int64);
  routing.order = r.take(rows, Type::int64);
  routing.weights = gathered(r, normed, routing.order, rows);
  return routing;
}

}  // namespace

Tensor Player::between_products(const ExpertGroup& o, const Tensor& first, std::int64_t rows,
                                const Tensor& weights) {
  Recorder& r = recorder_;
  if (r.compiled())
    return fused_rows(r, first, o.weighs_activation ? weights : undefined(), rows * o.width);
  Tensor made;
  if (o.gated) {
    const Tensors halves = chunk(r, first, 2);
    made = o.clamped ? clamped_product(r, halves[0], halves[1])
                     : multiply(r, unary_of_input(r, halves[0]), halves[1]);
  } else {
    made = unary_of_input(r, unary_of_output(r, first));
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
  const auto weight = [&](std::int64_t elements) {
    return Parameter{layer.unit, next++, elements};
  };
  LinearOptions router{.weight = weight(o.count * layer.in.channels), .out = tokens * o.count};
  router.wide = o.wide_router;
  if (o.biases) router.bias = weight(o.count);
  const Routing routing = route(r, linear(r, input(layer), router), rows);
  // Behind the experts' two.
  const auto projected = [&](const Tensor& in, std::uint32_t which, std::int64_t out) {
    const Parameter product{layer.unit, layer.parameter + 3 + which, layer.in.channels * hidden};
    return linear(r, in, {.weight = product, .out = tokens * out});
  };
  const Tensor x = o.latent > 0 ? projected(input(layer), 0, hidden) : input(layer);
  Tensor biases;
  const auto product = [&](const Tensor& in, std::int64_t narrow, std::int64_t wide) {
    const Parameter weights = weight(o.own() * narrow * wide);
    const Tensor out = grouped_product(r, in, weights, computed * wide, o.own());
    if (!o.biases) return out;
    return with_expert_bias(r, out, weight(o.own() * wide), routing.experts, biases);
  };
  // To the ranks that hold the experts, sorted by expert there, and copies to those that share one.
  const auto dispatched = [&](Tensor sent) {
    if (o.held > 0) sent = exchanged(r, sent, got * hidden);
    if (o.held > 1) sent = gathered(r, sent, routing.order, got * hidden);
    return o.sharing > 1 ? exchanged(r, sent, computed * hidden) : sent;
  };
  const auto combined = [&](Tensor made) {
    if (o.sharing > 1) made = exchanged(r, made, got * hidden);
    if (o.held > 1) made = gathered(r, made, routing.order, got * hidden);
    return o.held > 0 ? exchanged(r, made, rows * hidden) : made;
  };
  Tensor activated;
  {
    const Tensor selected = dispatched(gathered(r, x, routing.order, rows * hidden));
    const Tensor first = product(selected, hidden, o.wide());
    const bool whole = r.remakes(o.remakes_activation || layer.remade);
    activated = between_products(o, first, computed, routing.weights);
    r.remakes(whole);
  }
  const Tensor out = combined(product(activated, o.width, hidden));
  activated = undefined();
  Tensor back = out;
  if (!o.weighs_activation)
    back = gathered(r, multiply(r, out, routing.weights), routing.order, rows * hidden);
  const Tensor sum = to(r, summed(r, back, tokens * hidden), x.type);
  return o.latent > 0 ? projected(sum, 1, layer.in.channels) : sum;
}

Tensor Player::gate(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor logit = linear(r, input(layer),
                              {.weight = {layer.unit, layer.parameter, layer.in.channels},
                               .out = r.batch() * layer.in.positions()});
  return multiply(r, unary_of_output(r, logit), other(layer));
}

// Of a vision transformer: a copy behind the class's vector, and the sum with the table.
Tensor Player::class_token(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor token = parameter(r, {layer.unit, 0, layer.out.channels});
  const Tensor tokens = to(r, input(layer), token.type);
  Tensor joined = r.take(out(layer), token.type);
  r.connect(joined, {token, tokens},
            [patches = tokens.elements](const Gradients& gradients) -> Gradients {
              Gradients results = {gradients[0], gradients[0].detached()};
              results[0].broadcast = true;
              results[1].elements = patches;
              return results;
            });
  Tensor table = parameter(r, {layer.unit, 1, layer.out.elements()});
  table.unbatched = r.batch() > 1;
  return add(r, joined, table);
}

}  // namespace rehearse::tape
