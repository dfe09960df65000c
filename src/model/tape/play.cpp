#include "model/tape/play.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

NormOptions norm_options(const Recorder& recorder, const Layer& layer) {
  return {.scale = {layer.unit, layer.parameter, layer.in.channels},
          .channels = layer.in.channels,
          .positions = recorder.batch() * layer.in.positions(),
          .permuted = layer.in.positions() > 1 && !layer.channels_last,
          .shift = layer.bias,
          .form = layer.norm};
}

}  // namespace

Player::Player(const Model& model, Recorder& recorder) : model_(model), recorder_(recorder) {
  for (std::uint32_t unit = 0; unit < model.units.size(); ++unit) {
    for (const Layer& layer : model.units[unit].layers) {
      for (const std::uint32_t read : {layer.input, layer.other}) {
        last_readers_[read] = &layer;
        last_units_[read] = unit;
      }
    }
  }
}

bool Player::is_read_after(std::uint32_t value, std::uint32_t unit) const {
  const auto last = last_units_.find(value);
  return last != last_units_.end() && last->second > unit;
}

void Player::play() {
  if (model_.chunks.empty()) return play_whole();
  for (const Chunk& chunk : model_.chunks) play_chunk(chunk);
}

void Player::play_whole() {
  end_ = static_cast<std::uint32_t>(model_.units.size());
  values_[0] = {batch()};
  for (std::uint32_t unit = 0; unit < end_; ++unit) play_unit(unit);
  const Tensor loss = total_loss();
  if (outputs_made_) recorder_.add_leftovers(outputs_, *outputs_made_);
  recorder_.end_forward();
  recorder_.backward(loss);
  outputs_.clear();
}

void Player::play_chunk(const Chunk& chunk) {
  end_ = static_cast<std::uint32_t>(chunk.end);
  has_loss_ = chunk.has_loss;
  recorder_.begin_chunk();
  recorder_.begin_unit(static_cast<std::uint32_t>(chunk.first));
  values_.clear();
  values_[0] = {batch()};  // every stage has the tokens
  if (chunk.input != 0) values_[chunk.input] = {entering(chunk)};
  for (auto unit = static_cast<std::uint32_t>(chunk.first); unit < end_; ++unit) play_unit(unit);
  Tensor output;
  if (chunk.has_loss) {
    output = total_loss();
  } else {
    output = values_.rbegin()->second.front();
    recorder_.send(output);
    output.storage = nullptr;
  }
  values_.clear();
  rotary_ = {};
  recorder_.end_forward();
  recorder_.end_chunk(chunk.end - 1, output);
  outputs_.clear();
}

Tensor Player::batch() const {
  Tensor batch;
  batch.elements = recorder_.batch() * static_cast<std::int64_t>(model_.input_elements);
  batch.type = model_.tokens_per_sample > 0 ? Type::int64 : recorder_.parameter_type();
  return batch;
}

Tensor Player::entering(const Chunk& chunk) {
  const auto reads = [&](const Layer& layer) { return layer.input == chunk.input; };
  const auto& layers = model_.units[chunk.first].layers;
  const auto reader = std::ranges::find_if(layers, reads);
  check(reader != layers.end(), "a chunk that does not read its input");
  const bool wide = chunk.wide_input && recorder_.autocast() && !recorder_.on_cpu();
  return recorder_.receive(recorder_.batch() * reader->in.elements(),
                           wide ? Type::float32 : recorder_.parameter_type());
}

// A value is held until its last reader is done, and a unit's input until the unit is.
void Player::play_unit(std::uint32_t number) {
  recorder_.begin_unit(number);
  if (number + 1 == end_ && has_loss_) rotary_ = {};
  const std::vector<Layer>& layers = model_.units[number].layers;
  const std::uint32_t entered = values_.rbegin()->first;
  std::set<std::uint32_t> held = {entered};
  const Layer* const end = layers.data() + layers.size();
  // But for what a layer from `next` on reads.
  const auto release = [&](const Layer* next) {
    for (const std::uint32_t value : held) {
      const auto last = last_readers_.find(value);
      const bool read_here =
          last != last_readers_.end() && last->second >= next && last->second < end;
      if (!read_here && !is_read_after(value, number)) values_.erase(value);
    }
    held.clear();
  };
  for (const Layer& layer : layers) {
    if (layer.kind == LayerKind::cross_entropy) release(&layer);  // it is computed outside of it
    if (layer.remade)
      for (const std::uint32_t read : {layer.input, layer.other})
        if (const auto value = values_.find(read); value != values_.end())
          for (const Tensor& tensor : value->second) recorder_.keep_input(tensor);
    recorder_.remakes(layer.remade);
    recorder_.keep_exchanges(layer.keeps_exchanges);
    Value made = run(layer);
    recorder_.remakes(false);
    for (const std::uint32_t read : {layer.input, layer.other}) {
      if (last_readers_.at(read) == &layer && held.count(read) == 0) values_.erase(read);
    }
    values_[layer.output] = std::move(made);
    if (layer.releases) {
      held.erase(entered);
      release(&layer + 1);
      held.insert(entered);
    }
    if (layer.held) held.insert(layer.output);
  }
  const std::uint32_t left = layers.back().output;
  if (number + 1 == end_ && has_loss_) return values_.clear();
  held.erase(left);
  release(end);
  recorder_.end_unit(values_.at(left).front());
}

bool Player::joins_loss(const Layer& layer) const {
  if (!recorder_.compiled()) return false;
  const Layer* next = last_readers_.at(layer.output);
  while (next->kind == LayerKind::scale_logits || next->kind == LayerKind::softcap)
    next = last_readers_.at(next->output);
  return next->kind == LayerKind::cross_entropy && !is_librarys(next->loss);
}

Player::Value Player::run(const Layer& layer) {
  Recorder& r = recorder_;
  switch (layer.kind) {
    case LayerKind::linear:
      if (layer.loss_parts.any()) {
        parted_ = &layer;
        return values_.at(layer.input);
      }
      return linears(layer, input(layer), r.batch() * layer.in.positions());
    case LayerKind::layer_norm:
      return {layer_norm(r, input(layer), norm_options(r, layer))};
    case LayerKind::rms_norm:
      return {rms_norm(r, input(layer), norm_options(r, layer))};
    case LayerKind::batch_norm:
      return {batch_norm(r, input(layer), norm_options(r, layer))};
    case LayerKind::gelu:
      return {unary_of_input(r, input(layer))};
    case LayerKind::tanh:
    case LayerKind::sigmoid:
      return {unary_of_output(r, input(layer))};
    case LayerKind::dropout:
      return {dropout(r, input(layer))};
    case LayerKind::relu:
      return {relu_in_place(r, input(layer))};
    case LayerKind::silu:
      return {silu_in_place(r, input(layer))};
    case LayerKind::add:
      return {layer.in_place ? add_in_place(r, input(layer), other(layer))
                             : add(r, input(layer), other(layer))};
    case LayerKind::multiply:
      return {multiply(r, input(layer), other(layer))};
    case LayerKind::cross_entropy:
      losses_.push_back(parted_ != nullptr ? parted_loss(layer) : loss(layer));
      return {};
    case LayerKind::convolution:
      return {convolution(r, input(layer), layer)};
    case LayerKind::max_pool:
      return {pool(r, input(layer), out(layer), true)};
    case LayerKind::average_pool:
    case LayerKind::adaptive_pool:
      return {pool(r, input(layer), out(layer), false)};
    case LayerKind::mean:
      return {mean(r, input(layer), out(layer))};
    case LayerKind::concatenate:
      return {concatenate(r, {input(layer), other(layer)}, r.batch() == 1)};
    case LayerKind::layer_scale:
      return {scaled(layer)};
    case LayerKind::stochastic_depth:
      return {stochastic_depth(layer)};
    case LayerKind::embedding:
      return {rows(layer)};
    case LayerKind::rotate:
      return layer.attention.shared_table ? rotate_shared(layer) : rotate(layer);
    case LayerKind::attention: {
      const AttentionSize size = {layer.attention,
                                  layer.in.height,
                                  {layer.unit, layer.parameter, layer.attention.trained_bias}};
      const auto attends = [&r, size](const Value& sides) { return attention(r, sides, size); };
      return layer.recomputed ? r.checkpoint(values_.at(layer.input), attends)
                              : attends(values_.at(layer.input));
    }
    case LayerKind::cross_attention: {
      Tensors sides = {input(layer)};
      for (const Tensor& side : values_.at(layer.other)) sides.push_back(side);
      return attention(r, sides, {layer.attention, layer.in.height, {}});
    }
    case LayerKind::gelu_new:
      return {gelu_new(layer)};
    case LayerKind::gelu_fast:
      return {gelu_fast(layer)};
    case LayerKind::rectify:
      return {unary_of_output(r, input(layer))};
    case LayerKind::silu_out:
      return {unary_of_input(r, input(layer))};
    case LayerKind::scale:
      return {scale(r, input(layer))};
    case LayerKind::scale_logits:
      scales_logits_ = parted_ != nullptr && !joins_loss(layer);
      return {parted_ != nullptr || joins_loss(layer) ? input(layer) : scale(r, input(layer))};
    case LayerKind::softcap:
      caps_logits_ = parted_ != nullptr && !joins_loss(layer);
      return {parted_ != nullptr || joins_loss(layer) ? input(layer) : capped(input(layer))};
    case LayerKind::head_norm:
      return head_norm(layer);
    case LayerKind::latent_heads:
      return latent_heads(layer);
    case LayerKind::experts:
      return {experts(layer)};
    case LayerKind::gate:
      return {gate(layer)};
    case LayerKind::class_token:
      return {class_token(layer)};
    case LayerKind::swiglu:
      return {swiglu(layer)};
    case LayerKind::delta_net:
      return {delta_net(layer)};
    case LayerKind::state_space:
      return {state_space(layer)};
    case LayerKind::short_convolution:
      return {short_convolution(layer)};
    case LayerKind::square:
      return {unary_of_input(r, input(layer))};
    case LayerKind::without_gate:
      return around_gate(values_.at(layer.input), out(layer), false);
    case LayerKind::output_gate:
      return {output_gate(layer)};
    case LayerKind::scatter:
      return {exchanged(r, input(layer), out(layer))};
    case LayerKind::select:
      return {slice(r, input(layer), out(layer))};
    case LayerKind::by_position:
      return {r.compiled() ? lower(r, input(layer)) : copy(r, lower(r, input(layer)))};
    case LayerKind::unpack_heads:
      return unpack_heads(layer);
  }
  throw InternalError("a layer that no tape is made of");
}

Tensor Player::rows(const Layer& layer) {
  Recorder& r = recorder_;
  const Embedding& options = layer.embedding;
  const std::int64_t tokens = layer.in.height * (options.positions ? 1 : r.batch());
  Tensor ids = input(layer);
  if (options.positions || options.own_ids) ids = r.take(tokens, Type::int64);
  const Parameter table{layer.unit, layer.parameter, options.rows * layer.out.channels};
  Tensor chosen = embedding(r, ids, table, tokens * layer.out.channels);
  chosen.unbatched = options.positions;
  return chosen;
}

namespace {

/// Of each position: cosines and sines of half a head's angles. The angles and what they are made
/// of live as long as the table is made.
Tensor rotary_table(Recorder& r, std::int64_t tokens, std::int64_t half, Type type) {
  Tensor exponents, frequencies;
  {
    const Tensor range = r.workspace(half, Type::float32);
    exponents = with_number(r, half, Type::float32);
  }
  {
    const Tensor negative = r.workspace(half, Type::float32);
    frequencies = with_number(r, half, Type::float32);
  }
  const Tensor range = r.workspace(tokens, Type::float32);
  const Tensor angles = r.workspace(tokens * half, Type::float32);
  const Tensor cosines = r.workspace(tokens * half, Type::float32);
  const Tensor sines = r.workspace(tokens * half, Type::float32);
  return to(r, r.take(2 * tokens * half, Type::float32), type);
}

/// Each half of the channels turns into a difference and a sum of two products.
Tensor rotated(Recorder& r, const Tensor& heads, const Tensor& table) {
  const Tensors half = chunk(r, heads, 2);
  const auto times = [&](const Tensor& x) { return multiply(r, x, table, x.elements); };
  const Tensor cosine = times(half[0]), sine = times(half[1]);
  const Tensor first = subtract(r, cosine, sine);
  const Tensor cosine2 = times(half[1]), sine2 = times(half[0]);
  const Tensor second = add(r, cosine2, sine2);
  return concatenate(r, {first, second}, false);
}

}  // namespace

Player::Value Player::rotate(const Layer& layer) {
  Value sides = heads(layer);
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

Tensor Player::swiglu(const Layer& layer) {
  Value halves = values_.at(layer.input);
  if (halves.size() == 1) halves = chunk(recorder_, halves[0], 2);
  if (recorder_.compiled()) return fused_product(recorder_, halves[0], halves[1]);
  const Tensor gate = unary_of_input(recorder_, halves[0]);
  return multiply(recorder_, gate, halves[1]);
}

Tensor Player::scaled(const Layer& layer) {
  const Tensor factors = parameter(recorder_, {layer.unit, layer.parameter, layer.in.channels});
  return multiply(recorder_, factors, input(layer));
}

Tensor Player::stochastic_depth(const Layer& layer) {
  const Tensor noise = recorder_.take(recorder_.batch(), input(layer).type);
  divide_in_place(recorder_, noise);
  return multiply(recorder_, input(layer), noise);
}

}  // namespace rehearse::tape
