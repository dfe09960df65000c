// Gated delta net, as transformers' Qwen3NextGatedDeltaNet calls flash-linear-attention and causal
// conv1d.
#include <fmt/format.h>

#include "config/fields.hpp"
#include "model/mixers.hpp"
#include "model/tape/library.hpp"

namespace rehearse::inline model {
namespace {

using namespace tape;

/// Tokens of a chunk in flash-linear-attention's kernels (fla/ops/gated_delta_rule/chunk.py).
constexpr std::int64_t kDeltaChunk = 64;

/// Of flash-linear-attention's Triton kernels 0.5.1, heads of 128 by 128: 41 times of eight to
/// thirty-two thousand tokens and 4 to 64 heads, on an H200 and a GB200, are 7 % off in
/// the mean (QwenLM/FlashQLA@6e5d2ea and @5f6aa53, benchmark_results_H200.txt and
/// _GB200.txt, columns of FLA; tests/cost/scans.cpp). `token` seconds of a multiprocessor are what
/// a token and head takes. Besides, the states are a walk over chunks, each of which waits `step`
/// seconds for the one before it, in so many `blocks` of a head.
struct DeltaKernels {
  double token, step, blocks;
};
constexpr DeltaKernels kDeltaForward{156e-9, 1.4e-6, 3}, kDeltaBackward{488e-9, 3.8e-6, 4};
constexpr double kDeltaState = 128 * 128;

class GatedDeltaNet final : public Mixer {
 public:
  explicit GatedDeltaNet(const LinearAttention& dimensions) : o(dimensions) {}

  MixerProducts products() const override {
    return {{2 * o.keys() + 2 * o.values(), 2 * o.value_heads}, {"in_proj_qkvz", "in_proj_ba"}};
  }
  std::vector<MixerParameter> parameters() const override {
    return {{{o.convolved(), o.kernel}}, {o.value_heads}, {o.value_heads}, {o.value_width, true}};
  }
  std::int64_t channels() const override { return o.values(); }
  std::vector<MixerPart> parts() const override {
    return {{o.value_heads, "value heads of linear attention"},
            {o.key_heads, "key heads of linear attention"}};
  }
  MixerPtr share(std::int64_t ranks) const override {
    LinearAttention part = o;
    part.key_heads /= ranks;
    part.value_heads /= ranks;
    return mixer(part);
  }
  std::string contradiction() const override {
    if (o.value_heads % o.key_heads == 0) return {};
    return fmt::format("{} value heads of linear attention are no multiple of {} key heads",
                       o.value_heads, o.key_heads);
  }
  Tensor play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const override;

 private:
  LibraryWork forward(double samples, double tokens) const;
  LibraryWork backward(double samples, double tokens) const;

  LinearAttention o;
};

/// The kernels read and write one after the other: the products of keys in a chunk, their inverse,
/// w and u, the states, the outputs. FLOPs are the recurrence's, as Megatron-LM counts them: four
/// products of a state's size.
LibraryWork GatedDeltaNet::forward(double samples, double tokens) const {
  const double heads = static_cast<double>(o.value_heads), all = samples * tokens * heads;
  const auto key = static_cast<double>(o.key_width), value = static_cast<double>(o.value_width);
  const double states = 2 * key * value / kDeltaChunk;
  return {.flops = 8 * all * key * value,
          .moved = Bytes(2 * all * (7 * key + 6 * value + 4 * kDeltaChunk + states)),
          .occupied = Seconds(kDeltaForward.token * all * key * value / kDeltaState),
          .steps = tokens / kDeltaChunk,
          .step = Seconds(kDeltaForward.step),
          .blocks = samples * heads * kDeltaForward.blocks};
}

/// Backward makes w, u and the states once more.
LibraryWork GatedDeltaNet::backward(double samples, double tokens) const {
  const double heads = static_cast<double>(o.value_heads), all = samples * tokens * heads;
  const auto key = static_cast<double>(o.key_width), value = static_cast<double>(o.value_width);
  const double states = key * value / kDeltaChunk;
  return {.flops = 16 * all * key * value,
          .moved = Bytes(2 * all * (20 * key + 15 * value + 2 * kDeltaChunk + 4 * states)),
          .occupied = Seconds(kDeltaBackward.token * all * key * value / kDeltaState),
          .steps = tokens / kDeltaChunk,
          .step = Seconds(kDeltaBackward.step),
          .blocks = samples * heads * kDeltaBackward.blocks};
}

Tensor GatedDeltaNet::play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const {
  const Tensor& side = inputs[0];
  const std::int64_t samples = side.sizes[0], length = side.sizes[1];
  const std::int64_t heads = samples * length * o.value_heads;
  const std::int64_t keys = heads * o.key_width, values = heads * o.value_width;
  const auto wide = [&](std::int64_t channels) { return Sizes{samples, length, channels}; };
  const Sizes all_keys = wide(o.value_heads * o.key_width), all_values = wide(o.values());
  const Type type = side.type;
  const Tensors parts = split(r, side, 2, {o.keys(), o.keys(), o.values(), o.values()});
  Tensors mixed;
  {
    const Tensor joined = concatenate(r, {parts[0], parts[1], parts[2]}, 2);
    const Tensor convolved = call_library(r, {.op = "causal_conv1d",
                                              .inputs = {joined, parameters[0]},
                                              .output = r.take(joined.sizes, type),
                                              .saved = {joined}});
    mixed = split(r, convolved, 2, {o.keys(), o.keys(), o.values()});
  }
  const Tensors ways = chunk(r, inputs[1], 2);
  const Tensor written = unary_of_output(r, ways[0], kSigmoid);
  const Tensor kept = call_library(r, {.op = "gated_decay",
                                       .inputs = {ways[1], parameters[1], parameters[2]},
                                       .output = r.take(wide(o.value_heads), Type::float32),
                                       .saved = {ways[1]}});
  for (std::size_t place = 0; place < 2 && o.value_heads > o.key_heads; ++place)
    mixed[place] = call_library(
        r, {.op = "repeat_interleave", .inputs = {mixed[place]}, .output = r.take(all_keys, type)});
  Tensor attended;
  {
    Tensors saved = {mixed[2], kept, written, r.take(heads * kDeltaChunk, type)};
    for (int place = 0; place < 2; ++place) {  // queries and keys, as they are normed
      const Tensor normed = r.take(all_keys, type), factor = r.take(heads, Type::float32);
      mixed[place] = call_library(
          r,
          {.op = "l2norm", .inputs = {mixed[place]}, .output = normed, .saved = {normed, factor}});
      saved.push_back(mixed[place]);
    }
    const std::int64_t states = heads / kDeltaChunk * o.key_width * o.value_width;
    const Tensor made = r.workspace(keys + 2 * values + states, type);
    const auto many = static_cast<double>(samples), tokens = static_cast<double>(length);
    attended = call_library(r, {.op = "chunk_gated_delta_rule",
                                .inputs = {mixed[0], mixed[1], mixed[2], kept, written},
                                .output = r.take(all_values, type),
                                .saved = saved,
                                .forward = {forward(many, tokens)},
                                .backward = {backward(many, tokens)},
                                .scratch = (keys + 2 * values + 2 * states) / 2});
  }
  mixed.clear();
  const Tensor deviation = r.take(heads, Type::float32);
  return call_library(r, {.op = "gated_rms_norm",
                          .inputs = {attended, parts[3], parameters[3]},
                          .output = r.take(all_values, type),
                          .saved = {attended, parts[3], deviation}});
}

// In Hugging Face's words.
Fields<LinearAttention> delta_net_fields() {
  using L = LinearAttention;
  const auto dimension = form::integer(1, kMostDimension);
  return {implied("linear_num_key_heads", &L::key_heads, dimension, "Heads of queries and keys."),
          implied("linear_key_head_dim", &L::key_width, dimension, "Channels of one."),
          implied("linear_num_value_heads", &L::value_heads, dimension, "Heads of values."),
          implied("linear_value_head_dim", &L::value_width, dimension, "Channels of one."),
          implied("linear_conv_kernel_dim", &L::kernel, dimension,
                  "Tokens that the convolution sees.")};
}

}  // namespace

MixerPtr mixer(const LinearAttention& dimensions) {
  return std::make_shared<GatedDeltaNet>(dimensions);
}

MixerKind linear_attention_kind() {
  return {.layer = "linear_attention",
          .section = "attention",
          .key = "linear",
          .meaning = "Gated delta net, in layers of linear attention.",
          .read = [](const Value& value) { return mixer(read_fields(value, delta_net_fields())); },
          .keys = [](const std::string& prefix) { return keys_of(delta_net_fields(), prefix); }};
}

}  // namespace rehearse::inline model
