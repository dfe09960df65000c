// What all layers share, as transformers makes it once: cosines and sines, and masks of scores.
#include <algorithm>

#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {

namespace {

/// Of each position: cosines and sines of half a head's angles. The angles and what they are made
/// of live as long as the table is made.
Tensor rotary_table(Recorder& r, std::int64_t tokens, std::int64_t half, Type type) {
  const auto workspace = [&r](std::string_view op, const Sizes& sizes) {
    const Tensor made = r.workspace(sizes, Type::float32);
    r.record(op, {}, {&made});
    return made;
  };
  Tensor exponents, frequencies;
  {
    const Tensor range = workspace("arange", half);
    exponents = with_number(r, "div", range);
  }
  {
    const Tensor negative = workspace("neg", half);
    frequencies = with_number(r, "pow", negative);
  }
  const Tensor range = workspace("arange", tokens);
  const Tensor angles = workspace("mul", {tokens, half});
  const Tensor cosines = workspace("cos", {tokens, half});
  const Tensor sines = workspace("sin", {tokens, half});
  return to(r, r.call("stack", {&cosines, &sines}, Sizes{2, tokens, half}, Type::float32), type);
}

/// Each half of the channels turns into a difference and a sum of two products.
Tensor rotated(Recorder& r, const Tensor& heads, const Tensor& table) {
  const Tensors half = chunk(r, heads, 2);
  const Tensor part = select(r, table.detached(), 0);
  const Tensor cosine = multiply(r, half[0], part), sine = multiply(r, half[1], part);
  const Tensor first = subtract(r, cosine, sine);
  const Tensor cosine2 = multiply(r, half[1], part), sine2 = multiply(r, half[0], part);
  const Tensor second = add(r, cosine2, sine2);
  return concatenate(r, {first, second}, 3);
}

}  // namespace

void Player::make_shared(std::uint32_t first, Type type) {
  make_masks(first, type);
  make_slopes(first, type);
  make_rotary_table(first, type);
}

/// Scores that transformers' eager_attention_forward adds a mask to.
bool Player::adds_mask(const Layer& layer) {
  const Attention& o = layer.attention;
  return layer.kind == LayerKind::attention && !o.flash && !o.fused_softmax && o.wide_softmax &&
         o.causal && (!o.biased || o.table > 0);
}

// create_causal_mask and create_sliding_window_causal_mask: for all samples, in the embeddings'
// type.
void Player::make_masks(std::uint32_t first, Type type) {
  Recorder& r = recorder_;
  if (r.on_cpu()) return;
  for (std::uint32_t unit = first; unit < end_; ++unit)
    for (const Layer& layer : model_.units[unit].layers) {
      const bool slides = layer.attention.window > 0;
      if (!adds_mask(layer) || masks_.contains(slides)) continue;
      const Tensor zero = r.call("zeros", {}, Sizes(), type);
      const Tensor lowest = r.call("scalar_tensor", {}, Sizes(), type);
      Tensor seen;
      static_cast<Shape&>(seen) = {1, 1, layer.in.height, layer.in.height};
      seen.type = Type::boolean;
      masks_[slides] = r.call("where", {&seen, &zero, &lowest},
                              Sizes{r.batch(), 1, layer.in.height, layer.in.height}, type);
    }
}

// build_alibi_tensor of BLOOM, of 16 bits for all samples; build_mpt_alibi_tensor, of fp32, as long
// as the longest sample, and its mask is of truth values.
void Player::make_slopes(std::uint32_t first, Type type) {
  Recorder& r = recorder_;
  const Layer* user = nullptr;
  for (std::uint32_t unit = first; unit < end_ && user == nullptr; ++unit)
    for (const Layer& layer : model_.units[unit].layers)
      if (adds_mask(layer) && layer.attention.biased && user == nullptr) user = &layer;
  if (user == nullptr || r.on_cpu()) return;
  const std::int64_t heads = user->attention.heads, tokens = user->in.height;
  Tensor powers, places;
  static_cast<Shape&>(powers) = heads;
  powers.type = Type::int32;
  static_cast<Shape&>(places) = tokens;
  places.type = Type::int64;
  if (user->attention.spelling.selects) {
    const Tensor base = r.call("full", {}, Sizes(), Type::float32);
    const Tensor slopes = r.call("pow", {&base, &powers}, heads, Type::float32);
    const Tensor column = slopes.as({heads, 1, 1});
    const Tensor each = r.call("mul", {&column, &places}, {heads, 1, tokens}, Type::float32);
    const Sizes all = {r.batch() * heads, 1, tokens};
    slopes_ = to(r, r.call("repeat", {&each}, all, Type::float32), type);
    return;
  }
  powers.type = Type::int64;
  Tensor slopes = r.call("_to_copy", {&powers}, heads, Type::float32);
  for (const std::string_view op : {"mul", "pow", "reciprocal", "mul"})
    slopes = with_number(r, op, slopes);
  const std::int64_t longest = std::max(tokens, user->attention.table);
  static_cast<Shape&>(places) = {1, 1, 1, longest};
  places.type = Type::int32;
  const Tensor column = slopes.as({1, heads, 1, 1});
  const Tensor whole = r.call("mul", {&column, &places}, {1, heads, 1, longest}, Type::float32);
  slopes_ = slice(r, whole, 3, tokens).as({{heads, 1, tokens}, {longest, 0, 1}});
  Tensor& mask = masks_[false];
  mask = r.call("_to_copy", {&mask}, mask.sizes, Type::boolean);
}

// As the RotaryEmbedding of transformers makes it, behind the embeddings and in their type.
void Player::make_rotary_table(std::uint32_t first, Type type) {
  Recorder& r = recorder_;
  std::int64_t tokens = 0, width = 0;
  Spelling spelling;
  LatentRotation rotation = LatentRotation::halves;
  for (std::uint32_t unit = first; unit < end_ && tokens == 0; ++unit)
    for (const Layer& layer : model_.units[unit].layers) {
      const bool latent =
          layer.kind == LayerKind::latent_heads && layer.latent.rotation != LatentRotation::none;
      if (!latent && !(layer.kind == LayerKind::rotate && layer.attention.shared_table)) continue;
      tokens = latent ? layer.out.height : layer.in.height;
      width = latent ? layer.latent.rotated_width : layer.attention.rotated();
      if (latent) rotation = layer.latent.rotation;
      spelling = layer.attention.spelling;
      break;
    }
  if (tokens == 0) return;
  Tensor places, frequencies;
  static_cast<Shape&>(places) = {1, tokens, 1};
  places.type = Type::int64;
  static_cast<Shape&>(frequencies) = width / 2;
  const Sizes half = {1, tokens, width / 2}, whole = {1, tokens, width};
  const Tensor positions = r.call("_to_copy", {&places}, places.sizes, Type::float32);
  const Tensor angles = r.call("mul", {&positions, &frequencies}, half, Type::float32);
  rotary_.clear();
  if (rotation == LatentRotation::complex) return make_complex_table(angles);
  const bool pairs = spelling.neighbours && !spelling.repeats_table;
  const bool keeps_wide = spelling.wide_rotation || spelling.turns_narrow;
  const Tensor column = angles.as({1, tokens, width / 2, 1});
  const Tensor both =
      spelling.half_table ? angles
      : pairs ? r.call("clone", {&column}, Sizes{1, tokens, width / 2, 2}, Type::float32).as(whole)
              : r.call("cat", {&angles, &angles}, whole, Type::float32);
  for (const std::string_view op : {"cos", "sin"}) {
    const Tensor one = pointwise(r, op, both);
    rotary_.push_back(to(r, with_number(r, "mul", one), keeps_wide ? Type::float32 : type));
  }
  for (Tensor& one : rotary_) one = unsqueeze(r, one, 1);
}

/// Numbers of length 1, times a number.
void Player::make_complex_table(const Tensor& angles) {
  Recorder& r = recorder_;
  const Tensor ones = pointwise(r, "ones_like", angles);
  const Tensor unit = r.call("polar", {&ones, &angles}, angles.sizes, Type::complex64);
  rotary_.push_back(unsqueeze(r, with_number(r, "mul", unit), 1));
}

Player::Value Player::rotate(const Layer& layer) {
  Value sides = heads_of(recorder_, values_.at(layer.input), layer.attention);
  if (recorder_.compiled()) {
    for (std::size_t i : {0, 1}) sides[i] = fused_copy(recorder_, sides[i]);
    return sides;
  }
  const std::int64_t half = layer.attention.head_width / 2;
  const Tensor table = rotary_table(recorder_, layer.in.height, half, sides[0].type);
  for (std::size_t i : {0, 1}) sides[i] = rotated(recorder_, sides[i], table);
  sides.push_back(table);  // a local variable of the same function
  return sides;
}

}  // namespace rehearse::tape
