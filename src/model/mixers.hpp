#pragma once

#include <cstdint>

namespace rehearse::inline model {

/// Mixers of the tokens of a block.
enum class MixerKind : std::uint8_t {
  attention,
  linear_attention,
  state_space,
  short_convolution,
  none
};

/// Parts of a block, each with its norm and its sum.
struct BlockParts {
  MixerKind mixer = MixerKind::attention;
  bool feed_forward = true;  ///< dense, or of experts
};

/// Linear attention by the gated delta rule (Yang et al. 2024, arXiv:2412.06464), as Qwen3-Next has
/// it: queries, keys and values pass a short convolution, each head keeps a state of `key_width` x
/// `value_width`, and a gate scales what it gives. Value heads share key heads.
struct LinearAttention {
  std::int64_t key_heads = 16, key_width = 128;
  std::int64_t value_heads = 32, value_width = 128;
  std::int64_t kernel = 4;  ///< tokens that the convolution sees

  std::int64_t keys() const { return key_heads * key_width; }
  std::int64_t values() const { return value_heads * value_width; }
  /// Channels that the convolution goes over.
  std::int64_t convolved() const { return 2 * keys() + values(); }
};

/// Mamba 2 (Dao and Gu 2024, arXiv:2405.21060), as Nemotron-H has it: a group's heads share what
/// goes into their states, of `head_width` x `state` each, and comes out of them.
struct StateSpace {
  std::int64_t heads = 64, head_width = 64, state = 128, groups = 8;
  std::int64_t kernel = 4;
  std::int64_t chunk = 128;  ///< tokens after which kernels write states to memory

  std::int64_t channels() const { return heads * head_width; }
  std::int64_t convolved() const { return channels() + 2 * groups * state; }
};

/// LFM2's: of one product's three outputs the first scales what a convolution over a few tokens
/// reads, and the second what it gives.
struct ShortConvolution {
  std::int64_t channels = 0;
  std::int64_t kernel = 3;
  bool bias = false;  ///< of the convolution, and of the products around it
};

}  // namespace rehearse::inline model
