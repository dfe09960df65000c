#pragma once

#include <string_view>

#include "config/document.hpp"
#include "config/key.hpp"
#include "model/mixer.hpp"

namespace rehearse::inline model {

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
MixerPtr mixer(const LinearAttention& dimensions);

/// Kimi Delta Attention (Kimi Team 2025, arXiv:2510.26692), as Kimi Linear has it: a gated delta
/// net whose decay is of each channel of a key, and whose two gates are of a head's rank.
struct KimiDeltaAttention {
  std::int64_t heads = 32, width = 128;
  std::int64_t kernel = 4;  ///< tokens that the convolution sees

  std::int64_t channels() const { return heads * width; }
};
MixerPtr mixer(const KimiDeltaAttention& dimensions);

/// Mamba 2 (Dao and Gu 2024, arXiv:2405.21060), as Nemotron-H has it: a group's heads share what
/// goes into their states, of `head_width` x `state` each, and comes out of them.
struct StateSpace {
  std::int64_t heads = 64, head_width = 64, state = 128, groups = 8;
  std::int64_t kernel = 4;
  std::int64_t chunk = 128;  ///< tokens after which kernels write states to memory

  std::int64_t channels() const { return heads * head_width; }
  std::int64_t convolved() const { return channels() + 2 * groups * state; }
};
MixerPtr mixer(const StateSpace& dimensions);

/// LFM2's: of one product's three outputs the first scales what a convolution over a few tokens
/// reads, and the second what it gives.
struct ShortConvolution {
  std::int64_t channels = 0;
  std::int64_t kernel = 3;
  bool bias = false;  ///< of the convolution, and of the products around it
};
MixerPtr mixer(const ShortConvolution& dimensions);

/// The most that a key of a scenario may say of a dimension.
constexpr std::int64_t kMostDimension = 10'000'000;

/// A kind that a scenario's `transformer` can have, by its dimensions.
struct MixerKind {
  std::string_view layer;    ///< its word in `layer_types`
  std::string_view section;  ///< that its key stands in: "attention", or none
  std::string_view key;      ///< of its dimensions
  std::string_view meaning;  ///< of that key, for the reference
  MixerPtr (*read)(const Value& dimensions);
  std::vector<Key> (*keys)(const std::string& prefix);

  std::string path() const {
    return (section.empty() ? "" : std::string(section) + ".") + std::string(key);
  }
};
const std::vector<MixerKind>& mixer_kinds();
// One for each, in its own file.
MixerKind linear_attention_kind();
MixerKind kimi_delta_kind();
MixerKind state_space_kind();

}  // namespace rehearse::inline model
