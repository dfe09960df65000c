#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mixer.hpp"
#include "model/model.hpp"

namespace rehearse::inline model {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
/// Where a block's norms stand: before each sublayer (GPT-2, Llama), after each sum (BERT), before
/// each sublayer and after it (Gemma 2), or after each sublayer alone (OLMo 2).
enum class NormPlace : std::uint8_t { before, after_sum, around, after };
/// Means that tell positions apart. `relative`: a bias per bucket of distances and head, which the
/// first block of each stack owns (T5).
enum class PositionKind : std::uint8_t { none, rope, learned, alibi, relative };
/// The function between the products of a feed-forward layer. `gelu_new` is GELU's tanh form
/// written out operator by operator, as GPT-2 has it; `gelu_fast` the same in other operators;
/// `gelu_written` as a function of its own, which keeps its input alone (BLOOM).
enum class ActivationKind : std::uint8_t {
  gelu,
  gelu_new,
  gelu_fast,
  gelu_written,
  relu,
  relu_squared,
  relu_then_square,
  silu
};
/// Norms of queries and keys: none, of each head, of all heads at once (OLMo 2), or of each head
/// that is rotated, without weights (Llama 4).
enum class HeadNorm : std::uint8_t { none, each_head, all_heads, rotated_heads };
/// Layers that stand after the blocks.
enum class HeadKind : std::uint8_t {
  causal,   ///< each position's logits of the next token
  masked,   ///< BERT's: a dense layer, GELU, a norm, logits with a bias; all positions
  classes,  ///< the first token's (ViT)
  none
};

/// Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434): low-rank queries, keys and
/// values, and a part of each key that is rotated and shared by all heads.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< 0: queries are one product
  std::int64_t key_rank = 512;
  std::int64_t plain_width = 128;   ///< of a head's queries and keys, not rotated
  std::int64_t rotated_width = 64;  ///< and rotated
  std::int64_t value_width = 128;   ///< of a head's values
  LatentRotation rotation = LatentRotation::halves;
};

/// A mixture of experts in the place of a feed-forward layer.
struct Experts {
  std::int64_t count = 8;
  std::int64_t active = 2;        ///< experts that a token passes
  std::int64_t width = 0;         ///< of one expert
  std::int64_t shared_width = 0;  ///< of the experts that every token passes, together; 0: none
  bool shared_gate = false;       ///< the shared experts' output is scaled per token (Qwen 2)
  bool biases = false;            ///< of the router and of each expert (GPT-OSS)
  Router router = {};
  bool clamped = false;  ///< ExpertGroup::clamped
  /// Channels that tokens have on their way through experts, by a product before and one behind
  /// (Nemotron 3's latent experts); 0: all.
  std::int64_t latent = 0;
  /// Blocks without experts: the first ones, all but each `interval`th, and those listed.
  std::int64_t first_dense = 0;
  std::int64_t interval = 1;
  std::vector<std::int64_t> dense_blocks = {};
  /// Tokens that an expert takes, over its fair share; 0: as many as come (dropless).
  double capacity = 0;

  bool at(std::int64_t block) const;
};

/// Any transformer, by its dimensions; names are Hugging Face's where they have one. Each built-in
/// transformer, each config.json and each `transformer: {...}` of a scenario becomes one of these.
struct TransformerShape {
  std::string name = "transformer";
  std::string family = "transformer";  ///< Hugging Face's model_type
  std::string source = "given in the scenario";

  std::string unit_prefix = "layers";  ///< of the blocks' names

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< fewer than `heads`: grouped queries
  std::int64_t kv_ranks = 1;  ///< of a rank's share: tensor ranks that attend to one of them
  std::int64_t head_width = 0;
  std::int64_t feed_forward = 0;
  std::int64_t vocabulary = 0;
  std::int64_t tokens = 2048;    ///< of a sequence where the scenario does not say
  std::int64_t most_tokens = 0;  ///< 0: any
  /// Positions that engines serve (max_position_embeddings, times YaRN's factor); 0: not known.
  std::int64_t served_tokens = 0;

  NormKind norm = NormKind::rms_norm;
  NormPlace norm_place = NormPlace::before;
  NormForm norm_form = NormForm::usual;
  bool norm_bias = true;   ///< of layer norms
  bool first_norm = true;  ///< before the first block's attention (not ModernBERT)
  bool final_norm = true;
  /// Norms of a block whose attention and feed-forward read the same input (Falcon, GPT-NeoX), one
  /// or two; 0: one after the other.
  int parallel_norms = 0;
  HeadNorm head_norm = HeadNorm::none;

  PositionKind position = PositionKind::rope;
  bool partial_rotation = false;     ///< of `rope`: some channels of each head turn
  std::int64_t rotated_width = 0;    ///< of `rope`: these, where the source says; 0: all
  bool transposed_weights = false;   ///< blocks' weights are in by out (transformers' Conv1D)
  std::vector<bool> unrotated = {};  ///< of `rope`, layer by layer: positions are not told apart
  std::int64_t position_rows = 0;    ///< of the learned table; 0: as many as tokens
  std::int64_t buckets = 32;         ///< of `relative`
  bool own_positions = false;        ///< of the learned table: each sample's (RoBERTa)
  std::int64_t token_types = 0;      ///< rows of a table of segments (BERT); 0: none
  bool embedding_norm = false;
  bool embedding_scale = false;      ///< embeddings are multiplied by a number (Gemma)
  bool branch_scale = false;         ///< and what is added to the residual (Granite)
  bool logits_scale = false;         ///< and the logits
  bool divided_logits = false;       ///< by a division
  std::int64_t embedding_width = 0;  ///< narrower than `hidden`, projected in and out (OPT 350M)

  Spelling spelling = {};
  bool fused_qkv = false;   ///< one product
  bool multihead = false;   ///< of torch.nn.MultiheadAttention, which copies around it
  bool fused_gate = false;  ///< one product for gate and up
  bool qkv_bias = false, output_bias = false;
  bool wide_softmax = false;  ///< of eager scores, in fp32; always so where norms are RMS norms
  bool sinks = false;         ///< a logit per head that takes attention up (GPT-OSS)
  double softcap = 0;         ///< tanh of attention's logits (any number but 0), materialised
  std::int64_t window = 0;    ///< tokens that a sliding layer sees; 0: no layer slides
  /// Every how many layers one sees all tokens; 0: none does. Which of them: the last.
  std::int64_t full_every = 0;
  std::vector<bool> sliding = {};  ///< layer by layer, in the place of `full_every`
  std::optional<LatentAttention> latent = std::nullopt;
  bool attention_gate =
      false;  ///< the sigmoid of a product scales what attention gives (Qwen3-Next)
  /// Parts that blocks are made of, over and over; empty: attention and a feed-forward layer each.
  std::vector<BlockParts> parts = {};

  ActivationKind activation = ActivationKind::silu;
  bool gated = true;  ///< SwiGLU, GeGLU
  bool feed_forward_bias = false;
  std::optional<Experts> experts = std::nullopt;

  HeadKind head = HeadKind::causal;
  bool tied = false;  ///< the logits' weight is the embeddings'
  bool head_bias = false;
  bool masked_bias = true;  ///< of the dense layer of HeadKind::masked
  double logits_softcap = 0;
  double dropout = 0;                                      ///< only whether it is there matters
  bool embedding_dropout = true, attended_dropout = true;  ///< where it is there: behind these, too
  bool shared_rotary = true;  ///< cosines and sines are made once for all blocks (transformers)
  /// Blocks of an encoder before those of the decoder, which attend to it (T5); 0: none.
  std::int64_t encoder_layers = 0;
  std::int64_t target_tokens = 0;  ///< of the decoder; 0: as the encoder's
  /// Further blocks that predict tokens beyond the next one (DeepSeek-V3), each with a product of
  /// two embeddings and norms of its own.
  std::int64_t predicted_tokens = 0;

  // Vision transformers: images in patches, and a token of their class.
  std::int64_t image = 0;  ///< pixels per side; 0: tokens
  std::int64_t patch = 16;
  std::int64_t classes = 0;

  bool causal() const { return head == HeadKind::causal; }
  bool slides(std::int64_t block) const;
  bool rotates(std::int64_t block) const;
  BlockParts parts_of(std::int64_t block) const;
  /// The mixers of its parts, each once.
  std::vector<MixerPtr> mixers() const;
  bool has_experts(std::int64_t block) const;
  std::int64_t query_width() const { return heads * head_width; }
  std::int64_t kv_width() const { return kv_heads * head_width; }
};

/// Builds it. Throws std::invalid_argument with a message for the user where the shape does not
/// suit: a sequence beyond its table of positions.
Model transformer_model(const TransformerShape& transformer, const ModelShape& shape);

/// The same, and std::invalid_argument where the loss that is asked for is none of its head's.
Model build_transformer(const TransformerShape& transformer, const ModelShape& shape);
/// The dimensions of a built-in transformer; null for other networks.
const TransformerShape* built_in_shape(const std::string& name);

/// Blocks of one part each, a letter for each: M `mamba`, * attention, - a feed-forward layer, E
/// experts (Megatron-LM's hybrid_override_pattern). A message where a letter is another, or M is of
/// nothing; empty otherwise.
std::string set_hybrid_pattern(const std::string& letters, const MixerPtr& mamba,
                               TransformerShape& transformer);

/// Why scores are materialised although fused attention is asked for, as a sentence's end ("as
/// PyTorch's sdpa has no sinks"); empty: they are not.
std::string eager_because(const TransformerShape& transformer, const ModelShape& shape);
/// Whether attention is one kernel.
bool fuses_attention(const TransformerShape& transformer, const ModelShape& shape);

/// A contradiction within a shape: heads that groups of keys do not divide, more active experts
/// than there are. Empty if there is none.
std::string contradiction(const TransformerShape& transformer);

}  // namespace rehearse::inline model
