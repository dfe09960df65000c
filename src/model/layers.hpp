#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.hpp"

namespace rehearse {

/// The activation of one sample between two layers: an image's features, or tokens (height) times
/// hidden channels.
struct Activation {
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;
  bool wide = false;          ///< fp32 under autocast
  bool gradient = true;       ///< backward needs its gradient (not of the network's input)
  bool channels_last = true;  ///< its memory format; layers keep it, but for what permutes
  std::uint32_t value = 0;    ///< its number among the model's values; 0 is the batch

  Extent extent() const { return {channels, height, width}; }
  double positions() const { return static_cast<double>(height) * static_cast<double>(width); }
  double elements() const { return static_cast<double>(channels) * positions(); }
};

/// Appends layers to units as PyTorch's eager mode runs them: operators with their FLOPs and
/// traffic, parameter tensors in registration order, and the layers that the memory tape plays.
///
/// Traffic counts every read and write of an activation by the layer's kernels; what a cache might
/// save is not counted.
class Layers {
 public:
  explicit Layers(const Activation& input) : current_(input) {}

  /// Starts the next unit; every layer goes to the last unit started.
  void unit(const std::string& name);
  const Activation& current() const { return current_; }
  /// Goes back to an activation from which another branch has begun.
  void resume(const Activation& activation);
  /// A parameter that is registered before the layers around it.
  void parameter(std::int64_t elements);
  /// The unit's forward holds the current activation until it returns.
  void hold() { last().layers.back().held = true; }
  /// What it held until now ends.
  void release() { last().layers.back().releases = true; }
  std::vector<Unit> take() { return std::move(units_); }

  // Both kinds of network (layers.cpp).
  /// Linear layers side by side on one input, at every position; the output holds all their
  /// channels.
  void linear(const std::vector<std::int64_t>& channels, bool bias = true);
  /// A product with a weight that the first unit owns, its first tensor; `bias`: the tensor of this
  /// unit that `parameter` has registered for it.
  void tied_linear(std::int64_t channels, std::optional<std::uint32_t> bias = std::nullopt);
  void layer_norm();  ///< scale and shift
  void rms_norm();    ///< scale
  void gelu();
  void tanh();
  void dropout();
  /// Out of place or in place, the traffic is the same; fp32 under autocast if either side is.
  void add(const Activation& residual, bool in_place = false);
  /// Cross entropy with one target per position.
  void cross_entropy(Loss loss = Loss::cross_entropy);

  // Images (image_layers.cpp).
  void convolution(const Convolution& options);
  void batch_norm();
  void relu();  ///< in place
  void silu();  ///< in place, as torchvision asks; autograd clones its input
  void max_pool(const Pooling& options);
  void average_pool(const Pooling& options);
  /// Adaptive average to side x side.
  void adaptive_pool(std::int64_t side);
  void flatten();
  /// torch.cat of `features` and the current activation, along the channels (of tokens: along the
  /// sequence), without what it costs: DenseNet's belongs to `concatenate`, where the next unit
  /// begins and torchvision copies; BERT's head only puts its two outputs into one.
  void join(const Activation& features);
  /// torch.cat along the channels: a copy of all of them.
  void concatenate(std::int64_t channels);
  void squeeze_excite(std::int64_t squeezed_channels);
  /// Multiplies each channel by a parameter that `parameter` has registered.
  void layer_scale();
  void stochastic_depth();

  // Tokens (sequence_layers.cpp).
  void embedding(const Embedding& options);
  /// Rotary position embedding of queries and keys.
  void rotate(const Attention& options);
  /// Queries, keys and values stand side by side in the activation.
  void attention(const Attention& options);
  /// SiLU of the first half times the second half.
  void swiglu();
  /// Keeps `positions` of the tokens.
  void select(std::int64_t positions);

 private:
  Unit& last() { return units_.back(); }
  void append(const Operator& op) { last().operators.push_back(op); }
  /// An operator that only moves data, in the current activation's type.
  void move(OperatorKind kind, double forward_elements, double backward_elements,
            double parameters = 0);
  /// Autocast converts the current activation to 16 bits (or to 32) before the next layer, where it
  /// is not yet.
  void cast(bool wide);
  void norm(int parameters_per_channel);
  void to_float();
  void shift();
  void product(std::int64_t in, std::int64_t out, bool bias);
  void flash_attention(const Attention& options);
  void materialised_attention(const Attention& options);
  void global_mean();
  /// A dropout that is part of another layer.
  void count_dropout();
  /// Writes down what eager mode calls, from `input` to the current activation, which becomes a new
  /// value. Its parameters are the `parameters` last ones.
  void record(Layer layer, const Activation& input, std::size_t parameters = 0);

  std::vector<Unit> units_;
  Activation current_;
  std::uint32_t values_ = 0;
};

}  // namespace rehearse
