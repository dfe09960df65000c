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

/// Two halves of the channels, or those at even places and those at odd ones: a difference and a
/// sum of products.
Tensor turned_halves(Recorder& r, const Tensors& half, const Tensors& table) {
  const Tensor first = subtract(r, multiply(r, half[0], table[0]), multiply(r, half[1], table[1]));
  const Tensor second = add(r, multiply(r, half[1], table[0]), multiply(r, half[0], table[1]));
  return concatenate(r, {first, second}, 3);
}

/// apply_rotary_pos_emb_interleave of one side.
Tensor turned_pairs(Recorder& r, const Tensor& x, const Tensors& table) {
  const std::int64_t half = x.sizes[3] / 2;
  const Tensors sides = {slice(r, x, 3, half, 2), slice(r, x, 3, half, 2)};
  return turned_halves(r, sides, {slice(r, table[0], 3, half), slice(r, table[1], 3, half)});
}

/// Pairs of channels as complex numbers of fp32, times those of the table.
Tensor turned_complex(Recorder& r, const Tensor& x, const Tensor& table) {
  const Tensor wide = to(r, x, Type::float32);
  Sizes pairs = wide.sizes;
  pairs[3] /= 2;
  Tensor numbers = wide.detached().as(pairs);
  numbers.type = Type::complex64;
  Tensor output = r.call("mul", {&numbers, &table}, pairs, Type::complex64);
  output.type = Type::float32;
  static_cast<Shape&>(output) = wide.sizes;
  r.connect(output, {wide}, [&r, table, pairs](const Gradients& gradients) -> Gradients {
    const Tensor conjugate = r.call("clone", {&table}, table.sizes, Type::complex64);
    Tensor dy = gradients[0].as(pairs);
    dy.type = Type::complex64;
    Tensor dx = r.call("mul", {&dy, &conjugate}, pairs, Type::complex64);
    dx.type = Type::float32;
    return {dx.as(gradients[0].sizes)};
  });
  return to(r, output, x.type);
}

/// What a part of a tensor is overwritten with, and what has been there: autograd's CopySlices.
Tensor overwritten(Recorder& r, const Tensor& whole, const Tensor& part) {
  Sizes place = whole.sizes;
  place[3] = part.sizes[3];
  const Tensor view = whole.detached().as(Shape(place, whole.strides));
  r.record("copy_", {&view, &part}, {&view});
  Tensor output = whole.detached();
  r.connect(output, {whole, part},
            [&r, place, keeps = whole.needs_gradient()](const Gradients& gradients) -> Gradients {
              const Tensor& dy = gradients[0];
              const Tensor result = r.take(dy.sizes, dy.type);
              r.record("copy_", {&result, &dy}, {&result});
              const Tensor slice = result.as(Shape(place, result.strides));
              const Tensor copy = r.call("clone", {&slice}, place, dy.type);
              if (keeps) {
                const Tensor zeros = r.call("zeros_like", {&copy}, place, dy.type);
                r.record("copy_", {&slice, &zeros}, {&slice});
              }
              return {keeps ? result : undefined(), copy};
            });
  return output;
}

/// Half of a table, each number twice.
Tensor repeated_half(Recorder& r, const Tensor& table) {
  const Tensor half = slice(r, table, 3, table.sizes[3] / 2);
  const Tensor pairs = unsqueeze(r, half, 4);
  Sizes twice = pairs.sizes;
  twice[4] = 2;
  return r.call("clone", {&pairs}, twice, table.type).as(table.sizes);
}

}  // namespace

// torch.nn.functional.multi_head_attention_forward: heads are made one product's rows.
Tensor Player::by_position(const Value& value) {
  Recorder& r = recorder_;
  if (r.compiled()) return value.front();
  if (value.size() == 1) return transpose(r, value.front(), 0, 1);
  const Tensor& heads = value.back();  // of attention: samples, heads, tokens, width
  const Tensor turned = contiguous(r, transpose(r, transpose(r, heads, 1, 2), 0, 1));
  return reshape(r, turned, {turned.sizes[0], turned.sizes[1], turned.sizes[2] * turned.sizes[3]});
}

Player::Value Player::unpack_heads(const Layer& layer) {
  if (recorder_.compiled()) return chunk(recorder_, input(layer), 3);
  Recorder& r = recorder_;
  const Tensor& packed = input(layer);
  const std::int64_t tokens = packed.sizes[0], samples = packed.sizes[1];
  const std::int64_t hidden = packed.sizes[2] / 3, heads = layer.attention.heads;
  const Tensor four = reshape(r, packed, {tokens, samples, 3, hidden});
  const Tensor whole = clone(r, transpose(r, transpose(r, four, 1, 2), 0, 1));
  Value sides;
  for (int side = 0; side < 3; ++side) {
    const Tensor one = reshape(r, select(r, whole, 0), {tokens, samples * heads, hidden / heads});
    sides.push_back(reshape(r, transpose(r, one, 0, 1), {samples, heads, tokens, hidden / heads}));
  }
  return sides;
}

/// torch.cat with what is not rotated (Phi-3, GPT-NeoX) leaves it head by head in memory.
Tensor Player::partly_turned(const Attention& o, const Tensor& x, const Value& sides) {
  const RotaryTable table{sides[0], sides[1]};
  Recorder& r = recorder_;
  const bool neighbours = o.spelling.neighbours;
  if (o.spelling.half_table) return turned_halves(r, chunk(r, x, 2), sides);
  if (o.spelling.turns_narrow) {
    const Tensor cosine = multiply(r, to(r, x, Type::float32), table.cosines);
    const Tensor half = half_turned(r, x, neighbours);
    const Tensor sine = multiply(r, to(r, half, Type::float32), table.sines);
    return to(r, add(r, cosine, sine), x.type);
  }
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

// bloom_gelu_forward and bloom_gelu_back: single operators, of which the input alone is saved.
Tensor Player::gelu_written(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor& x = input(layer);
  if (r.compiled()) return unary_of_input(r, x, kGelu);
  const auto number = [&r](std::string_view op, const Tensor& one) {
    return with_number(r, op, one);
  };
  const auto times = [&r](const Tensor& one, const Tensor& other) {
    return pointwise(r, "mul", one, other);
  };
  const auto tanh_of = [number, times, &r](const Tensor& one) {
    const Tensor factor = number("add", times(number("mul", one), one));
    return pointwise(r, "tanh", times(number("mul", one), factor));
  };
  Tensor output;
  {
    const Tensor half = number("mul", x);
    output = times(half, number("add", tanh_of(x)));
  }
  r.connect(
      output, {x},
      [&r, number, times, tanh_of, saved = x.detached()](const Gradients& gradients) -> Gradients {
        const Tensor tanh = tanh_of(saved);
        const Tensor half = number("mul", saved);
        const Tensor rest = number("rsub", times(tanh, tanh));
        const Tensor slope = number("add", times(number("mul", saved), saved));
        const Tensor left = times(half, times(rest, slope));
        const Tensor right = number("mul", number("add", tanh));
        return {times(pointwise(r, "add", left, right), gradients[0])};
      });
  return output;
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
  const auto turn = [&](const Tensor& x) {
    if (o.rotation == LatentRotation::none) return x;
    if (o.rotation == LatentRotation::complex) return turned_complex(r, x, rotary_[0]);
    if (o.rotation == LatentRotation::pairs) return turned_pairs(r, x, rotary_);
    return turned(r, x, {rotary_[0], rotary_[1]});
  };
  Tensor whole_queries = heads_side_by_side(other(layer), o.heads);
  const bool turns = o.rotation != LatentRotation::none;
  const Tensors queries =
      turns ? split(r, whole_queries, 3, {o.plain_width, o.rotated_width}) : Tensors{};
  const Tensor turned_queries = turns ? turn(queries[1]) : undefined();
  const Tensor turned_key =
      turn(heads_side_by_side(all > tokens ? exchanged(r, parts[1], all) : parts[1], 1));
  if (turns) whole_queries = concatenate(r, {queries[0], turned_queries}, 3);
  const Tensors keys =
      split(r, heads_side_by_side(both, o.heads), 3, {o.plain_width, o.value_width});
  Sizes key = keys[0].sizes;
  key[3] = o.rotated_width;
  const Tensor last_keys = expand(r, turned_key, key);
  key[3] += o.plain_width;
  const Tensor whole_keys =
      r.compiled() ? concatenate(r, {keys[0], last_keys}, 3)
                   : overwritten(r, overwritten(r, r.take(key, keys[0].type), keys[0]), last_keys);
  return {whole_queries, whole_keys, keys[1]};
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
