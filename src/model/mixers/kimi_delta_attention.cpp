// Kimi Delta Attention, as transformers' KimiLinearDeltaAttention calls flash-linear-attention and
// causal conv1d.
#include "config/fields.hpp"
#include "model/mixers.hpp"
#include "model/tape/library.hpp"

namespace rehearse::inline model {
namespace {

using namespace tape;

/// Tokens of a chunk in flash-linear-attention's kernels (fla/ops/kda/chunk.py).
constexpr std::int64_t kChunk = 64;

/// Flash-linear-attention's Triton kernels take these: seconds of a multiprocessor for a token and
/// a head of 128 by 128, and how often memory moves the bytes that they read and write. Forward the
/// delta rule's own seconds (gated_delta_net.cpp), and bytes fitted to an H200: some are in its
/// cache. Backward both are fitted to a GB200 and an RTX 5090: tiles of channels read anew. Public
/// times, and those of GPUs that nothing was fitted to: tests/cost/scans.cpp.
struct KimiKernels {
  double token, passes;
};
constexpr KimiKernels kForward{156e-9, 0.85}, kBackward{200e-9, 1.45};
constexpr double kState = 128 * 128;

class KimiDelta final : public Mixer {
 public:
  explicit KimiDelta(const KimiDeltaAttention& dimensions) : o(dimensions) {}

  /// The two gates of low rank have their first halves here.
  MixerProducts products() const override {
    return {.channels = {o.channels(), o.channels(), o.channels(), o.heads, o.width, o.width},
            .names = {"q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj", "g_a_proj"},
            .whole = 2};
  }
  /// conv1d, f_b_proj, dt_bias, A_log, g_b_proj, o_norm.
  std::vector<MixerParameter> parameters() const override {
    return {{{3 * o.channels(), o.kernel}},
            {{o.channels(), o.width}},
            {o.channels()},
            {o.heads},
            {{o.channels(), o.width}},
            {o.width, true}};
  }
  std::int64_t channels() const override { return o.channels(); }
  std::vector<MixerPart> parts() const override {
    return {{o.heads, "heads of Kimi delta attention"}};
  }
  MixerPtr share(std::int64_t ranks) const override {
    KimiDeltaAttention part = o;
    part.heads /= ranks;
    return mixer(part);
  }
  Tensor play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const override;

 private:
  Tensor decays(Recorder& r, const Tensor& gate, const Tensor& bias, const Tensor& rate) const;
  Tensor attended(Recorder& r, Tensors sides, const Tensor& kept, const Tensor& written) const;
  std::vector<LibraryWork> work(double samples, double tokens, double bytes, double flops,
                                const KimiKernels& kernels) const;

  KimiDeltaAttention o;
};

/// KimiLinearForgetGate: -exp(A_log) softplus(x + dt_bias) in fp32, operator by operator.
Tensor KimiDelta::decays(Recorder& r, const Tensor& gate, const Tensor& bias,
                         const Tensor& rate) const {
  const Tensor wide = add(r, to(r, gate, Type::float32), bias);
  const Tensor soft =
      unary_of_input(r, add_number(r, unary_of_output(r, wide, {"exp", "mul"})), {"log", "div"});
  const Tensor large = r.take(wide.sizes, Type::byte);
  const Tensor chosen = call_library(r, {.op = "where",
                                         .inputs = {wide, soft},
                                         .output = r.take(wide.sizes, Type::float32),
                                         .saved = {large}});
  return call_library(r, {.op = "mul",
                          .inputs = {chosen, rate},
                          .output = r.take(wide.sizes, Type::float32),
                          .saved = {chosen}});
}

/// Kernels that move bytes one after the other, and what multiprocessors are busy with beside it.
/// FLOPs are the recurrence's, four products of a state's size.
std::vector<LibraryWork> KimiDelta::work(double samples, double tokens, double bytes, double flops,
                                         const KimiKernels& kernels) const {
  const double all = samples * tokens * static_cast<double>(o.heads);
  const auto width = static_cast<double>(o.width);
  return {{.op = "chunk_kda_passes", .moved = Bytes(kernels.passes * all * bytes), .launches = 5},
          {.flops = flops * all * width * width,
           .moved = Bytes(1),
           .occupied = Seconds(kernels.token * all * width * width / kState)}};
}

/// Bytes of a token and head. Forward: sums of decays over a chunk, pairs of a chunk and their
/// inverse, w and u, states, outputs. Backward makes w, u and the states once more, then gradients
/// of the pairs, the states, w and u, the pairs' sides and the decays.
Tensor KimiDelta::attended(Recorder& r, Tensors sides, const Tensor& kept,
                           const Tensor& written) const {
  const Tensor& value = sides[2];
  const std::int64_t samples = value.sizes[0], length = value.sizes[1];
  const std::int64_t heads = samples * length * o.heads, all = heads * o.width;
  const std::int64_t states = heads / kChunk * o.width * o.width;
  const Type type = value.type;
  Tensors saved = {value, kept, written, r.take(2 * heads * kChunk, type)};
  for (int place = 0; place < 2; ++place) {  // queries and keys, as they are normed
    const Tensor normed = r.take(value.sizes, type), factor = r.take(heads, Type::float32);
    sides[place] = call_library(
        r, {.op = "l2norm", .inputs = {sides[place]}, .output = normed, .saved = {normed, factor}});
    saved.push_back(sides[place]);
  }
  const Tensor made = r.workspace(5 * all + states, type);
  const Tensor sums = r.workspace(all, Type::float32);
  const auto many = static_cast<double>(samples), tokens = static_cast<double>(length);
  const auto width = static_cast<double>(o.width), chunk = static_cast<double>(kChunk);
  const double state = width * width / chunk;
  return call_library(
      r, {.op = "chunk_kda",
          .inputs = {sides[0], sides[1], sides[2], kept, written},
          .output = r.take(value.sizes, type),
          .saved = saved,
          .forward = work(many, tokens, 50 * width + 4 * state + 20 * chunk, 8, kForward),
          .backward = work(many, tokens, 116 * width + 10 * state + 22 * chunk, 16, kBackward),
          .scratch = 3 * all + states});
}

Tensor KimiDelta::play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const {
  const Sizes sides = inputs[0].sizes;
  const Type type = inputs[0].type;
  Tensors mixed;
  {
    const Tensor joined = concatenate(r, {inputs[0], inputs[1], inputs[2]}, 2);
    const Tensor convolved = call_library(r, {.op = "causal_conv1d",
                                              .inputs = {joined, parameters[0]},
                                              .output = r.take(joined.sizes, type),
                                              .saved = {joined}});
    mixed = split(r, convolved, 2, {o.channels(), o.channels(), o.channels()});
  }
  const Tensor kept = decays(r, linear(r, inputs[4], parameters[1]), parameters[2], parameters[3]);
  const Tensor written = unary_of_output(r, inputs[3], kSigmoid);
  const Tensor result = attended(r, std::move(mixed), kept, written);
  const Tensor gate = linear(r, inputs[5], parameters[4]);
  const Tensor deviation = r.take(result.elements() / o.width, Type::float32);
  return call_library(r, {.op = "gated_rms_norm",
                          .inputs = {result, gate, parameters[5]},
                          .output = r.take(sides, type),
                          .saved = {result, gate, deviation}});
}

// In Hugging Face's words.
Fields<KimiDeltaAttention> kimi_delta_fields() {
  using K = KimiDeltaAttention;
  const auto dimension = form::integer(1, kMostDimension);
  return {implied("linear_num_heads", &K::heads, dimension, "Heads."),
          implied("linear_head_dim", &K::width, dimension, "Channels of one."),
          implied("linear_conv_kernel_dim", &K::kernel, dimension,
                  "Tokens that the convolution sees.")};
}

}  // namespace

MixerPtr mixer(const KimiDeltaAttention& dimensions) {
  return std::make_shared<KimiDelta>(dimensions);
}

MixerKind kimi_delta_kind() {
  return {.layer = "kda",
          .section = "attention",
          .key = "kda",
          .meaning = "Kimi Delta Attention, in layers of kda.",
          .read = [](const Value& value) { return mixer(read_fields(value, kimi_delta_fields())); },
          .keys = [](const std::string& prefix) { return keys_of(kimi_delta_fields(), prefix); }};
}

}  // namespace rehearse::inline model
