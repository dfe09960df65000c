#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/sizes.hpp"

namespace rehearse::tape {
class Recorder;
struct Tensor;
class Tensors;
}  // namespace rehearse::tape

namespace rehearse::inline model {

/// Linear layers in front of a mixer, side by side on one input, and what adapters call them. The
/// one behind it, `out_proj`, has a bias where these have one.
struct MixerProducts {
  std::vector<std::int64_t> channels;
  std::vector<std::string> names;
  bool bias = false;
  std::size_t whole = 0;  ///< the last so many: each tensor rank has the whole of them
};

/// A parameter between these products. Ranks of a tensor-parallel group have parts of it; or all of
/// it, and its gradient is a sum over them.
struct MixerParameter {
  Sizes sizes;
  bool summed = false;
};

/// What ranks of a group divide, by its name: "heads of state spaces".
struct MixerPart {
  std::int64_t count = 0;
  std::string name;
};

/// What mixes the tokens of a block in the place of attention. A file of model/mixers holds each
/// kind: its dimensions' keys, its parameters, and its operators as the tape plays them. What they
/// move and compute is read off the tape.
class Mixer {
 public:
  virtual ~Mixer() = default;

  virtual MixerProducts products() const = 0;
  virtual std::vector<MixerParameter> parameters() const = 0;
  /// Channels of what it gives.
  virtual std::int64_t channels() const = 0;
  /// Tensor ranks divide all of these, and context ranks what a tensor rank has of the last.
  virtual std::vector<MixerPart> parts() const = 0;
  /// What each of so many tensor ranks has of it.
  virtual std::shared_ptr<const Mixer> share(std::int64_t ranks) const = 0;
  /// A contradiction among its dimensions; empty if there is none.
  virtual std::string contradiction() const { return {}; }
  /// True of what Megatron-LM's graph scopes call mamba.
  virtual bool is_mamba() const { return false; }
  /// From what the products give, one tensor each, (samples, tokens, channels), to its output.
  virtual tape::Tensor play(tape::Recorder& recorder, const tape::Tensors& inputs,
                            const tape::Tensors& parameters) const = 0;
};
using MixerPtr = std::shared_ptr<const Mixer>;

/// Parts of a block, each with its norm and its sum. Without a mixer tokens are mixed by attention,
/// or not at all.
struct BlockParts {
  MixerPtr mixer = nullptr;
  bool attention = true;
  bool feed_forward = true;  ///< dense, or of experts

  bool attends() const { return attention && !mixer; }
};

}  // namespace rehearse::inline model
