#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.hpp"
#include "model/parallel.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

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

/// How a linear layer is split over a tensor-parallel group: not at all, by its outputs, or by its
/// inputs.
enum class Split : std::uint8_t { none, columns, rows };

/// Rows that a rank sends to experts for each that its tokens choose: a capacity fills every expert
/// up to it, and one below 1 drops what is over it.
inline double filled(const ExpertGroup& group) { return group.capacity > 0 ? group.capacity : 1; }

/// Appends layers to units as PyTorch's eager mode runs them: operators with their FLOPs and
/// traffic, parameter tensors in registration order, and the layers that the memory tape plays.
///
/// Traffic counts every read and write of an activation by the layer's kernels; what a cache might
/// save is not counted.
class Layers {
 public:
  explicit Layers(const Activation& input, const ModelParallel& parallel = {})
      : current_(input), parallel_(parallel) {}

  /// Starts the next unit; every layer goes to the last unit started.
  void unit(const std::string& name);
  const Activation& current() const { return current_; }
  /// Goes back to an activation from which another branch has begun.
  void resume(const Activation& activation);
  /// A parameter that is registered before the layers around it; its index in the unit.
  std::uint32_t parameter(std::int64_t elements) { return parameter(elements, whole_share()); }
  std::uint32_t parameter(std::int64_t elements, ParameterShare share);
  /// The unit's forward holds the current activation until it returns.
  void hold() { last().layers.back().held = true; }
  /// Ends what it held until now.
  void release() { last().layers.back().releases = true; }
  /// Layers of the last unit so far.
  std::size_t calls() { return last().layers.size(); }
  /// Lets all that read this layer's input have tokens in one dimension.
  void flatten_input(std::size_t call) { last().layers.at(call).flattens = true; }
  std::vector<Unit> take() { return std::move(units_); }

  // Both kinds of network (layers.cpp).
  /// Linear layers side by side on one input, at every position; the output holds all their
  /// channels. Tensor ranks do not divide the last `whole` of them.
  void linear(const std::vector<std::int64_t>& channels, bool bias = true,
              Split split = Split::none, std::size_t whole = 0);
  /// Sets the names that adapters use for the outputs of the linear layer that was made last.
  void name_outputs(const std::vector<std::string>& names) { last().layers.back().names = names; }
  /// Weights of the last unit's products are in by out (transformers' Conv1D).
  void transpose_unit();
  /// They are turned before autocast makes 16 bits of them (Falcon).
  void turn_unit();
  /// Products of the last unit stay in 16 bits, whatever the precision: it is no block.
  void keep_unit_wide();
  /// Sets the loss parts of the linear layer that was made last.
  void set_loss_parts(const LossParts& parts) { last().layers.back().loss_parts = parts; }
  /// A product with a weight that the first unit owns, its first tensor; `bias`: the tensor of this
  /// unit that `parameter` has registered for it.
  void tied_linear(std::int64_t channels, std::optional<std::uint32_t> bias = std::nullopt);
  void layer_norm(bool shift = true, NormForm form = NormForm::usual);  ///< scale and shift
  /// Scale; Llama's reference code or another's, operator by operator.
  void rms_norm(NormForm form = NormForm::usual);
  void gelu();
  void gelu_new();   ///< its tanh form, operator by operator
  void gelu_fast();  ///< the same, with two products in the place of a power
  /// The same as a function of its own, which keeps its input alone (BLOOM).
  void gelu_written();
  void rectify();   ///< ReLU, out of place
  void silu_out();  ///< SiLU, out of place
  void scale();     ///< times a number
  void scale_logits(bool divides = false);
  void softcap();  ///< cap * tanh(x / cap)
  void tanh();
  void by_position(bool copies);          ///< LayerKind::by_position; a product reads it in order
  void unpack_heads(std::int64_t heads);  ///< LayerKind::unpack_heads
  void dropout(bool in_place = false);
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
  /// sequence), without what it costs: BERT's head only puts its two outputs into one. `lists`:
  /// both stay apart until `concatenate`, where DenseNet's next unit begins.
  void join(const Activation& features, bool lists = false);
  /// torch.cat along the channels: a copy of all of them. Backward adds slices of the gradient to
  /// what later layers have left for `added` of the sources; the last reader's slices are views.
  void concatenate(std::int64_t channels, std::int64_t added);
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
  /// SiLU of the first half, or GELU, times the second half.
  void swiglu(bool gelu = false);
  /// Keys and values of all heads from a low-rank input, whose last channels are rotated; `queries`
  /// are rotated in their last channels, too. Its own norm and product included.
  void latent_heads(const LatentAttention& latent, std::int64_t heads, const Activation& queries);
  /// RMS norms of queries and keys: of each head, or of all heads at once.
  void head_norm(const Attention& options, bool all_heads, NormForm form = NormForm::usual);
  /// `queries` attend to the keys and values that stand in the activation.
  void cross_attention(const Attention& options, const Activation& queries);
  /// A router and its experts.
  void experts(const ExpertGroup& options);
  /// Lets operators compute beside the experts that were made last: [first, second) beside their
  /// dispatch, those from `second` on beside their combine, with what they exchange from `exchange`
  /// on.
  void beside_experts(std::size_t first, std::size_t second, std::size_t exchange);
  std::size_t operators() const { return units_.back().operators.size(); }
  std::size_t exchanges() const { return units_.back().exchanges.size(); }
  /// Scales `gated` by a number per token: the sigmoid of a product with the activation.
  void gate(const Activation& gated);
  /// Rows of the first unit's first tensor.
  void shared_embedding(std::int64_t rows);
  /// torch.cat of `left` and the activation along the channels.
  void beside(const Activation& left);
  /// A product with the weight that the unit has registered last, once more.
  void repeat_linear(std::int64_t channels);
  /// The positions of an image as tokens behind one of its class, and a table of positions added:
  /// the unit's first two tensors.
  void class_token();
  /// Keeps `positions` of the tokens.
  void select(std::int64_t positions);

  // Tokens mixed without attention (mixer_layers.cpp).
  /// Adds what stands between a mixer's products. The activation holds what those in front give,
  /// side by side.
  void mix(const MixerPtr& mixer);
  /// `apart`: libraries have no one function of it and the ReLU before.
  void square(bool apart = false);
  /// The last `channels` of the products that were made last are for `output_gate` alone.
  void set_gate_aside(std::int64_t channels);
  void output_gate(const Activation& with_gate);

  // Ranks that share a layer (parallel_layers.cpp).
  /// Sums, for a table whose rows are split, the rows that other ranks found. Where `scatter`, this
  /// rank keeps its tokens of them.
  void sum_rows(bool scatter);
  /// Keeps this rank's tokens of an activation that all ranks have.
  void scatter();
  /// Gathers all channels where each rank has a part of them, and keeps `channels` of them.
  void gather_heads(std::int64_t channels);
  /// Gathers the logits where the loss is of whole ones (ModelParallel::gather_logits).
  void gather_logits();

 private:
  static void composes_rms_norm(Operator& norm, double elements);
  static void composes_layer_norm(Operator& norm, double elements);
  void plain_layer_norm();
  Unit& last() { return units_.back(); }
  void append(const Operator& op) { last().operators.push_back(op); }
  /// An operator that only moves data, in the current activation's type.
  void move(OperatorKind kind, double forward_elements, double backward_elements,
            double parameters = 0);
  /// Autocast converts the current activation to 16 bits (or to 32) before the next layer, where it
  /// is not yet.
  void cast(bool wide);
  void norm(int parameters_per_channel, LayerKind kind);
  /// `channels` of the activation, by an element-wise kernel that reads `reads` and writes one.
  void pointwise(LayerKind kind, double kernels = 1);
  void to_float();
  void library_loss(Loss loss);
  void shift();
  void product(std::int64_t in, std::int64_t out, bool bias);
  void add_bias(std::int64_t out);
  /// `quantizes_input`: it is the first of those on one input.
  void narrow_last_product(bool quantizes_input, bool gathers = false);
  void convert_rotated(const Spelling& spelling, double elements);
  /// How queries, keys and values of `input` become heads, where it takes kernels.
  void append_heads(const Attention& options, const Activation& input);
  void fused_attention(const Attention& options);
  /// Adds attention of `tokens` queries: one of `steps` like parts of what they see.
  void flash_attention(const Attention& options, double tokens, std::size_t steps);
  void materialised_attention(const Attention& options);
  void global_mean();
  /// Adds the router of a mixture of experts: logits, softmax, the largest.
  void router(const ExpertGroup& options);
  /// A dropout that is part of another layer.
  void count_dropout();
  /// Autocast: the gradient of what an fp32 operator was given in 16 bits.
  void narrow_gradient();
  /// Writes down what eager mode calls, from `input` to the current activation, which becomes a new
  /// value. Its parameters are the `parameters` last ones.
  void record(Layer layer, const Activation& input, std::size_t parameters = 0);

  /// Share that a rank has of a parameter that is not split: its gradient is a sum where tokens are
  /// split.
  ParameterShare whole_share() const {
    return parallel_.splits_tokens() ? ParameterShare::summed : ParameterShare::replicated;
  }
  Cut here() { return {.before_operator = last().operators.size()}; }
  void exchange(const Exchange& one) { last().exchanges.push_back(one); }
  /// One each way, of the same size, which computation waits for.
  void exchange_here(ExchangeAxis axis, ExchangeKind forward, ExchangeKind backward,
                     double elements);
  /// Around products whose outputs are split; `begin`: the operators before them.
  void enter_columns(std::size_t sides = 1);
  void leave_columns(const Activation& input, std::size_t begin, std::size_t sides = 1);
  bool scatters_in_pieces(std::size_t sides) const;
  void merge_steps(const Attention& options, std::size_t ranks, double keys, bool wide);
  void copy(double forward_elements, double backward_elements, bool before);
  void leave_rows();
  /// Around a loss of logits that are split.
  void begin_losses();
  void end_losses();
  void ring_attention(const Attention& options);
  /// Around the experts' products.
  void exchange_tokens(const ExpertGroup& options, bool dispatch);
  void exchange_counts(const ExpertGroup& options);
  void exchange_weights(const ExpertGroup& options);
  void add_replicas(const ExpertGroup& options, Direction pass);
  void exchange_for_heads();

  std::vector<Unit> units_;
  std::map<const Mixer*, std::vector<Operator>> mixed_;  ///< of tokens as they are now
  std::size_t dispatched_ = 0, combined_ = 0;  ///< where the last experts' tokens come and go
  Activation current_;
  ModelParallel parallel_;
  std::uint32_t values_ = 0;
};

}  // namespace rehearse::inline model
