// Mamba 2, as transformers' and Megatron-LM's classes call mamba_ssm.
#include <fmt/format.h>

#include "config/fields.hpp"
#include "model/mixers.hpp"
#include "model/tape/library.hpp"

namespace rehearse::inline model {
namespace {

using namespace tape;

/// A multiprocessor's FLOP/s in the products of mamba_ssm's scans, as Megatron-LM counts these.
/// Nemotron 3 Nano's takes 369 us forward on a Blackwell (NVIDIA/Megatron-LM#5829, taken as 8,192
/// tokens), 75 of which pass states on: 0.69 TFLOP/s on each of 148. On an H200 its chunks' outputs
/// alone take 0.45 ns for a token and head (tile-ai/TileOPs#1608).
constexpr double kScanRate = 0.69e12;

class Mamba2 final : public Mixer {
 public:
  explicit Mamba2(const StateSpace& dimensions) : o(dimensions) {}

  MixerProducts products() const override {
    return {{o.channels() + o.convolved() + o.heads}, {"in_proj"}};
  }
  std::vector<MixerParameter> parameters() const override {
    return {{{o.convolved(), o.kernel}},
            {o.convolved()},
            {o.heads},
            {o.heads},
            {o.heads},
            {o.channels()}};
  }
  std::int64_t channels() const override { return o.channels(); }
  std::vector<MixerPart> parts() const override {
    return {{o.heads, "heads of state spaces"}, {o.groups, "groups of state spaces"}};
  }
  MixerPtr share(std::int64_t ranks) const override {
    StateSpace part = o;
    part.heads /= ranks;
    part.groups /= ranks;
    return mixer(part);
  }
  std::string contradiction() const override {
    if (o.heads % o.groups == 0) return {};
    return fmt::format("{} heads of state spaces are no multiple of {} groups", o.heads, o.groups);
  }
  bool is_mamba() const override { return true; }
  Tensor play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const override;

 private:
  StateSpace o;
};

/// mamba_split_conv1d_scan_combined: a convolution with SiLU; states of chunks, which are fp32, and
/// their sums over chunks, which memory bounds and nothing hides; products of C and B in a chunk,
/// the outputs; and a gated norm. Backward convolves once more. Forward the scan computes two
/// products of a state, one of a chunk's pairs and C by B: backward five, three and three, for the
/// states and C by B once more, gradients of states, x, B and C, of the pairs, of C by B to either
/// side, and of the decays. Its FLOPs are Megatron-LM's, seven of a state's size to a token and
/// channel.
Tensor Mamba2::play(Recorder& r, const Tensors& inputs, const Tensors& parameters) const {
  const Tensor& x = inputs[0];
  const std::int64_t tokens = x.sizes[0] * x.sizes[1];
  const std::int64_t inner = tokens * o.channels(), states = inner / o.chunk * o.state;
  const std::int64_t pairs = tokens * o.groups * o.chunk;
  const Sizes out = {x.sizes[0], x.sizes[1], o.channels()};
  const Tensor scanned = r.take(out, x.type);
  const Tensor deviation = r.take(tokens * o.groups, Type::float32);
  const Tensor mixed = r.workspace(tokens * o.convolved(), x.type);
  const Tensor steps = r.workspace(2 * tokens * o.heads, Type::float32);
  const Tensor sums = r.workspace(2 * states, Type::float32);
  const Tensor products = r.workspace(pairs, Type::float32);

  const auto wide = static_cast<double>(inner), each = static_cast<double>(tokens);
  const auto state = static_cast<double>(o.state), part = static_cast<double>(o.chunk);
  const auto groups = static_cast<double>(o.groups), kept = static_cast<double>(states);
  const double shared = 2 * each * groups * state, across = 2 * static_cast<double>(pairs) * state;
  const double again = (10 * wide * state + 6 * wide * part + 3 * across) /
                       (4 * wide * state + 2 * wide * part + across);
  const double convolved = each * static_cast<double>(o.convolved()), flops = 7 * wide * state;
  const double crossed = static_cast<double>(pairs);
  const auto moved = [](double elements) { return Bytes(2 * elements); };
  Tensors read = {x};
  for (const Tensor& parameter : parameters) read.push_back(parameter);
  return call_library(
      r, {.op = "mamba_chunk_scan",
          .inputs = read,
          .output = r.take(out, x.type),
          .saved = {x, scanned, deviation},
          .forward = {{.op = "causal_conv1d", .moved = moved(2 * convolved)},
                      {.op = "mamba_state_passing", .moved = moved(8 * kept), .launches = 2},
                      {.flops = flops,
                       .moved = moved(3 * wide + 2 * shared + 2 * crossed),
                       .launches = 3,
                       .occupied = Seconds(flops / kScanRate)},
                      {.op = "gated_rms_norm", .moved = moved(3 * wide)}},
          .backward = {{.op = "gated_rms_norm", .moved = moved(5 * wide)},
                       {.op = "causal_conv1d", .moved = moved(5 * convolved), .launches = 2},
                       {.op = "mamba_state_passing", .moved = moved(20 * kept), .launches = 4},
                       {.flops = again * flops,
                        .moved = moved(8 * wide + 4 * shared + 4 * crossed),
                        .launches = 8,
                        .occupied = Seconds(again * flops / kScanRate)}},
          .scratch = tokens * o.convolved() / 2 + 2 * tokens * o.heads + 3 * states + pairs});
}

// In Megatron-LM's and Hugging Face's words.
Fields<StateSpace> mamba_fields() {
  using S = StateSpace;
  const auto dimension = form::integer(1, kMostDimension);
  return {implied("heads", &S::heads, dimension, "Heads."),
          implied("head_dim", &S::head_width, dimension, "Channels of one."),
          implied("state_size", &S::state, dimension, "Numbers that a channel keeps."),
          implied("groups", &S::groups, dimension,
                  "Heads of a group share what enters and leaves states."),
          implied("conv_kernel", &S::kernel, dimension, "Tokens that the convolution sees."),
          implied("chunk_size", &S::chunk, dimension, "Tokens between states that kernels write.")};
}

}  // namespace

MixerPtr mixer(const StateSpace& dimensions) { return std::make_shared<Mamba2>(dimensions); }

MixerKind state_space_kind() {
  return {.layer = "mamba",
          .section = "",
          .key = "mamba",
          .meaning = "Mamba 2, in layers of state spaces.",
          .read = [](const Value& value) { return mixer(read_fields(value, mamba_fields())); },
          .keys = [](const std::string& prefix) { return keys_of(mamba_fields(), prefix); }};
}

}  // namespace rehearse::inline model
