#include "model/tape/play.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

NormOptions norm_options(const Layer& layer) {
  return {.scale = {layer.unit, layer.parameter, layer.in.channels},
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
  for (std::uint32_t unit = 0; unit < end_; ++unit) {
    play_unit(unit);
    if (unit > 0 || values_.empty()) continue;
    make_shared(1, left_type());
    hold_first(values_.rbegin()->second);
  }
  const Tensor loss = total_loss();
  if (outputs_made_) recorder_.add_leftovers(outputs_, *outputs_made_);
  recorder_.end_forward();
  recorder_.backward(loss);
  outputs_.clear();
}

void Player::play_chunk(const Chunk& chunk) {
  end_ = static_cast<std::uint32_t>(chunk.end);
  has_loss_ = chunk.has_loss;
  holds_output_ = chunk.holds_output;
  recorder_.begin_chunk();
  recorder_.begin_unit(static_cast<std::uint32_t>(chunk.first));
  values_.clear();
  values_[0] = {batch()};  // every stage has the tokens
  if (chunk.input != 0) hold_first(values_[chunk.input] = {entering(chunk)});
  const auto first = static_cast<std::uint32_t>(chunk.first);
  if (chunk.input != 0) make_shared(first, values_[chunk.input].front().type);
  for (std::uint32_t unit = first; unit < end_; ++unit) {
    play_unit(unit);
    if (unit == first && chunk.input == 0 && !values_.empty()) make_shared(first + 1, left_type());
  }
  Tensor output;
  if (chunk.has_loss) {
    output = total_loss();
  } else {
    output = values_.rbegin()->second.front();
    recorder_.send(output);
    output.storage = nullptr;
  }
  values_.clear();
  first_.clear();
  rotary_.clear();
  masks_.clear();
  slopes_ = undefined();
  recorder_.end_forward();
  recorder_.end_chunk(chunk.end - 1, output);
  outputs_.clear();
}

Tensor Player::batch() const {
  Tensor batch;
  const auto elements = static_cast<std::int64_t>(model_.input_elements);
  Shape& shape = batch;
  shape = Sizes{recorder_.batch(), elements};
  if (model_.image > 0) {
    const std::int64_t channels = elements / (model_.image * model_.image);
    const Sizes sizes = {recorder_.batch(), channels, model_.image, model_.image};
    const auto& layers = model_.units.front().layers;
    shape = !layers.empty() && layers.front().channels_last ? channels_last(sizes) : Shape(sizes);
  }
  batch.type = model_.tokens_per_sample > 0 ? Type::int64 : recorder_.parameter_type();
  return batch;
}

Tensor Player::entering(const Chunk& chunk) {
  const auto reads = [&](const Layer& layer) { return layer.input == chunk.input; };
  const auto& layers = model_.units[chunk.first].layers;
  const auto reader = std::ranges::find_if(layers, reads);
  check(reader != layers.end(), "a chunk that does not read its input");
  // Embeddings that are kept in fp32 beside quantized weights make the residual stream fp32.
  const bool kept_wide = std::ranges::any_of(
      model_.units[chunk.first].traits,
      [](const auto& trait) { return !trait.trained && trait.storage == StoredAs::fp32; });
  const bool wide = kept_wide || (chunk.wide_input && recorder_.autocast() && !recorder_.on_cpu());
  const Extent& in = reader->in;
  const bool tokens = model_.tokens_per_sample > 0 || in.width == 1;
  const Sizes sizes = tokens ? Sizes{recorder_.batch(), in.positions(), in.channels}
                             : Sizes{recorder_.batch(), in.channels, in.height, in.width};
  return recorder_.receive(reader->channels_last ? channels_last(sizes) : Shape(sizes),
                           wide ? Type::float32 : recorder_.parameter_type());
}

// A value is held until its last reader is done, and a unit's input until the unit is.
void Player::play_unit(std::uint32_t number) {
  recorder_.begin_unit(number);
  if (number + 1 == end_ && has_loss_) {
    first_.clear();
    rotary_.clear();
    masks_.clear();
    slopes_ = undefined();
  }
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
  // A module's input is its caller's until it returns; with a backward it is saved anyway.
  std::vector<std::uint32_t> normed;
  const auto hold_input = [&](const Layer& layer) {
    const bool norms = layer.kind == LayerKind::rms_norm || layer.kind == LayerKind::layer_norm;
    if (recorder_.has_gradients()) return;
    if (norms && held.insert(layer.output).second) normed.push_back(layer.output);
    if (layer.kind != LayerKind::add) return;
    for (const std::uint32_t value : normed) {
      held.erase(value);
      if (last_readers_.at(value) < &layer && !is_read_after(value, number)) values_.erase(value);
    }
    normed.clear();
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
    hold_input(layer);
  }
  const std::uint32_t left = layers.back().output;
  if (number + 1 == end_ && has_loss_) return values_.clear();
  held.erase(left);
  release(end);
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
  if (layer.flattens) flatten(values_.at(layer.input).front());
  switch (layer.kind) {
    case LayerKind::linear:
      if (layer.loss_parts.any()) {
        parted_ = &layer;
        return values_.at(layer.input);
      }
      return linears(layer, by_channels(layer));
    case LayerKind::layer_norm:
      return {layer_norm(r, by_channels(layer), norm_options(layer))};
    case LayerKind::rms_norm:
      return {rms_norm(r, input(layer), norm_options(layer))};
    case LayerKind::batch_norm:
      return {batch_norm(r, as_image(layer), norm_options(layer))};
    case LayerKind::gelu:
      return {unary_of_input(r, input(layer), kGelu)};
    case LayerKind::tanh:
      return {unary_of_output(r, input(layer), kTanh)};
    case LayerKind::sigmoid:
      return {unary_of_output(r, input(layer), kSigmoid)};
    case LayerKind::dropout:
      return {layer.in_place && !r.on_cpu() ? dropout_in_place(r, by_channels(layer))
                                            : dropout(r, input(layer))};
    case LayerKind::relu:
      return {relu_in_place(r, input(layer))};
    case LayerKind::silu:
      return {silu_in_place(r, input(layer))};
    case LayerKind::add:
      return {sum(layer)};
    case LayerKind::multiply:
      return {multiply(r, input(layer), other(layer))};
    case LayerKind::cross_entropy:
      losses_.push_back(parted_ != nullptr ? parted_loss(layer) : loss(layer));
      return {};
    case LayerKind::convolution:
      return {convolution(r, as_image(layer), layer)};
    case LayerKind::max_pool:
    case LayerKind::average_pool:
    case LayerKind::adaptive_pool:
      return {pool(r, input(layer),
                   {r.batch(), layer.out.channels, layer.out.height, layer.out.width},
                   layer.pooling,
                   layer.kind == LayerKind::max_pool       ? kMaxPool
                   : layer.kind == LayerKind::average_pool ? kAveragePool
                                                           : kAdaptivePool)};
    case LayerKind::mean:
      return {global_mean(layer)};
    case LayerKind::concatenate:
      return joined(layer);
    case LayerKind::layer_scale:
      return {scaled(layer)};
    case LayerKind::stochastic_depth:
      return {stochastic_depth(layer)};
    case LayerKind::embedding:
      return {rows(layer)};
    case LayerKind::rotate:
      return layer.attention.shared_table ? rotate_shared(layer) : rotate(layer);
    case LayerKind::attention: {
      AttentionSize size = {layer.attention, layer.in.height, bias_of(layer)};
      if (const auto mask = masks_.find(layer.attention.window > 0);
          adds_mask(layer) && mask != masks_.end())
        size.mask = mask->second;
      size.slopes = slopes_;
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
    case LayerKind::gelu_written:
      return {gelu_written(layer)};
    case LayerKind::rectify:
      // With a square behind it one function, as Megatron-LM's squared_relu (core/activations.py).
      if (r.compiled() && last_readers_.at(layer.output)->kind == LayerKind::square)
        return values_.at(layer.input);
      return {unary_of_output(r, input(layer), kRelu)};
    case LayerKind::silu_out:
      return {unary_of_input(r, input(layer), kSilu)};
    case LayerKind::scale:
      return {scale(r, input(layer))};
    case LayerKind::scale_logits:
      scales_logits_ = parted_ != nullptr && !joins_loss(layer);
      return {parted_ != nullptr || joins_loss(layer)
                  ? input(layer)
                  : scale(r, input(layer), layer.divides ? "div" : "mul")};
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
    case LayerKind::mixer:
      return {mixed(layer)};
    case LayerKind::square:
      if (r.compiled()) return {unary_of_input(r, input(layer), kSquaredRelu)};
      [[fallthrough]];
    case LayerKind::square_apart:
      return {power(r, widen_on_cuda(r, input(layer)))};
    case LayerKind::without_gate:
      return around_gate(values_.at(layer.input), layer.out.channels, false);
    case LayerKind::output_gate:
      return {output_gate(layer)};
    case LayerKind::scatter:
      return {exchanged(r, input(layer),
                        with_positions(input(layer).sizes, layer.out.channels,
                                       r.batch() * layer.out.positions()))};
    case LayerKind::select:
      return {selected(layer)};
    case LayerKind::by_position:
      return {by_position(values_.at(layer.input))};
    case LayerKind::unpack_heads:
      return unpack_heads(layer);
  }
  throw InternalError("a layer that no tape is made of");
}

Parameter Player::bias_of(const Layer& layer) {
  const Attention& o = layer.attention;
  if (o.trained_bias == 0) return {};
  if (o.trained_bias == o.heads) return {layer.unit, layer.parameter, o.heads};
  return {layer.unit, layer.parameter, {o.trained_bias / o.heads, o.heads}};
}

Tensor Player::sum(const Layer& layer) {
  const Tensor left = as_image(layer), right = as_image(other(layer), layer.in);
  const Tensor both =
      layer.in_place ? add_in_place(recorder_, left, right) : add(recorder_, left, right);
  const Extent& out = layer.out;
  if (both.dimensions() > 2 || out.positions() == 1) return both;
  return reshape(recorder_, both, {recorder_.batch(), out.positions(), out.channels});
}

void Player::flatten(Tensor& x) {
  x = reshape(recorder_, x, {x.elements() / x.sizes.back(), x.sizes.back()});
}

/// OPTLearnedPositionalEmbedding: a mask of ones is fp32.
void Player::count_positions(const Sizes& sizes) {
  Recorder& r = recorder_;
  const Tensor ones = r.call("ones", {}, sizes, Type::float32);
  Tensor counts = r.call("cumsum", {&ones}, sizes, Type::float32);
  counts = pointwise(r, "mul", counts, ones);
  counts = with_number(r, "sub", counts);
  r.call("_to_copy", {&counts}, sizes, Type::int64);
}

Tensor Player::rows(const Layer& layer) {
  Recorder& r = recorder_;
  const Embedding& options = layer.embedding;
  const bool shared = options.positions && !options.by_sample;
  const Sizes sizes = {shared ? 1 : r.batch(), layer.in.height};
  Tensor ids = input(layer).as(sizes);
  if (options.positions || options.own_ids) {
    // Of the kinds of tokens a buffer has one row, for all samples.
    const bool expands = options.own_ids && !options.by_sample;
    if (options.counted) count_positions(sizes);
    const Tensor own = r.take(expands ? Sizes{1, sizes[1]} : sizes, Type::int64);
    ids = expands ? own.as({sizes, {0, 1}}) : own;
  }
  return embedding(r, ids, {layer.unit, layer.parameter, {options.rows, layer.out.channels}});
}

Tensor Player::swiglu(const Layer& layer) {
  Value halves = values_.at(layer.input);
  if (halves.size() == 1 && recorder_.compiled()) return fused_halves(recorder_, halves[0]);
  if (halves.size() == 1) halves = chunk(recorder_, halves[0], 2);
  if (recorder_.compiled()) return fused_product(recorder_, halves[0], halves[1]);
  const Tensor gate = unary_of_input(recorder_, halves[0], layer.gelu ? kGelu : kSilu);
  // Nobody saves what the function read: it is gone before the product.
  if (!recorder_.has_gradients() && last_readers_.at(layer.input) == &layer)
    halves[0] = values_.at(layer.input)[0] = undefined();
  return multiply(recorder_, gate, halves[1]);
}

}  // namespace rehearse::tape
