#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/model.hpp"
#include "model/tape/autograd.hpp"
#include "model/tape/operators.hpp"

namespace rehearse::tape {

/// Runs a model's layers, unit by unit, forward and backward.
class Player {
 public:
  Player(const Model& model, Recorder& recorder);
  void play();

 private:
  /// A value: one tensor, or several side by side.
  using Value = Tensors;

  void play_whole();
  void play_chunk(const Chunk& chunk);
  Tensor batch() const;
  /// A chunk's input, as large as what made it, in this chunk or in another, and of the type of
  /// activations there.
  Tensor entering(const Chunk& chunk);
  Tensor total_loss();
  void play_unit(std::uint32_t unit);
  Value run(const Layer& layer);
  /// The module that calls the blocks keeps what enters the first one. With a backward the
  /// first block saves it anyway.
  void hold_first(const Value& value) {
    if (!recorder_.has_gradients()) first_ = value;
  }
  /// Whether torch.compile makes one kernel of the loss and of a layer between the logits and it.
  bool joins_loss(const Layer& layer) const;
  Tensor loss(const Layer& layer);
  Tensor shifted_fused_loss(Tensor logits);
  Tensors pieces_of(const Layer& product, const Tensor& x);
  Tensor loss_of_piece(const Layer& layer, Tensor& piece);
  /// The output, converted and held; what it was made of goes.
  Tensor as_output(Tensor& logits);
  /// Outputs of linear layers for some positions of the batch, or all.
  Value linears(const Layer& layer, const Tensor& x);
  Tensor parted_loss(const Layer& layer);
  Tensor loss_at_once(const Layer& layer, const Layer& product, const Tensor& x);
  Tensor fused_loss(const Layer& product, const Tensor& x);
  AdapterOptions adapter_options(const Layer& layer, const Adapter& adapter,
                                 std::int64_t positions) const;
  Value rotate(const Layer& layer);
  Tensor by_position(const Value& value);
  Value unpack_heads(const Layer& layer);
  Tensor swiglu(const Layer& layer);
  Tensor scaled(const Layer& layer);
  Tensor stochastic_depth(const Layer& layer);
  Tensor rows(const Layer& layer);
  static Parameter bias_of(const Layer& layer);
  Tensor as_image(const Tensor& x, const Extent& extent);
  /// The layer's input as an image, which all see that read it from now on.
  Tensor as_image(const Layer& layer) {
    Tensor& x = values_.at(layer.input).front();
    return x = as_image(x, layer.in);
  }
  Tensor sum(const Layer& layer);
  Tensor by_channels(const Layer& layer);
  Tensor selected(const Layer& layer);
  void flatten(Tensor& x);
  Value joined(const Layer& layer);
  Tensor global_mean(const Layer& layer);
  void count_positions(const Sizes& sizes);
  // play_transformer.cpp
  Tensor partly_turned(const Attention& options, const Tensor& x, const Value& table);
  void make_rotary_table(std::uint32_t first, Type type);
  void make_shared(std::uint32_t first, Type type);
  void make_masks(std::uint32_t first, Type type);
  void make_slopes(std::uint32_t first, Type type);
  void make_complex_table(const Tensor& angles);
  static bool adds_mask(const Layer& layer);
  Type left_type() const { return values_.rbegin()->second.front().type; }
  Value rotate_shared(const Layer& layer);
  Tensor gelu_new(const Layer& layer);
  Tensor gelu_fast(const Layer& layer);
  Tensor gelu_written(const Layer& layer);
  Tensor capped(const Tensor& logits);
  Value head_norm(const Layer& layer);
  Value latent_heads(const Layer& layer);
  // play_experts.cpp
  Tensor experts(const Layer& layer);
  Tensor grouped_experts(const Layer& layer);
  Tensor exchanged_experts(const Layer& layer);
  Tensor between_products(const ExpertGroup& options, const Tensor& first, const Tensor& weights);
  Tensor gate(const Layer& layer);
  Tensor class_token(const Layer& layer);
  // play_mixers.cpp
  Tensor mixed(const Layer& layer);
  Tensor output_gate(const Layer& layer);
  Value around_gate(const Value& sides, std::int64_t before, bool gate);
  /// True where a unit after `unit` reads the value.
  bool is_read_after(std::uint32_t value, std::uint32_t unit) const;
  const Tensor& input(const Layer& layer) const { return values_.at(layer.input).front(); }
  const Tensor& other(const Layer& layer) const { return values_.at(layer.other).front(); }

  const Model& model_;
  Recorder& recorder_;
  std::map<std::uint32_t, Value> values_;
  std::map<std::uint32_t, const Layer*> last_readers_;
  std::map<std::uint32_t, std::uint32_t> last_units_;  ///< that read a value
  std::uint32_t end_ = 0;                              ///< past the last unit of what is played
  bool has_loss_ = true;
  bool holds_output_ = false;     ///< Chunk::holds_output
  Value first_;                   ///< as hold_first has it
  Value rotary_;                  ///< cosines and sines that all layers share
  std::map<bool, Tensor> masks_;  ///< of scores that are written out; true: of sliding layers
  Tensor slopes_ = undefined();   ///< what ALiBi adds to scores
  Tensors losses_;
  Tensors outputs_;  ///< logits that the training loop holds until backward is done
  /// Events of the last unit after which the logits are there; nothing: nobody asks.
  std::optional<std::size_t> outputs_made_ = {};
  const Layer* parted_ = nullptr;  ///< the logits' layer, which runs with its loss piece by piece
  bool caps_logits_ = false, scales_logits_ = false;
};

}  // namespace rehearse::tape
