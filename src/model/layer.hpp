#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/mixer.hpp"

namespace rehearse::inline model {

/// Size of an activation per sample: an image's features, or tokens (height) times hidden channels.
struct Extent {
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t positions() const { return height * width; }
  std::int64_t elements() const { return channels * positions(); }
};

struct Convolution {
  std::int64_t channels = 0;  ///< of the output
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
};

struct Pooling {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

/// Kernels that compute fused attention: PyTorch's choice for scaled_dot_product_attention on a
/// GPU, a version of the library FlashAttention, its first form in Triton, or cuDNN; or cuDNN's in
/// FP8 (TransformerEngine's fp8_dpa, with NVTE_FP8_DPA_BWD=1).
enum class AttentionKernel : std::uint8_t {
  sdpa,
  flash1,
  flash2,
  flash3,
  triton,
  cudnn,
  cudnn_fp8
};

/// True of cuDNN's, in any format.
inline bool is_cudnn(AttentionKernel kernel) {
  return kernel == AttentionKernel::cudnn || kernel == AttentionKernel::cudnn_fp8;
}

/// What a family's code writes in other operators than most do: the same numbers, other kernels.
struct Spelling {
  bool neighbours = false;     ///< channels that turn together lie side by side (Cohere, GLM-4)
  bool repeats_table = false;  ///< of these: each layer repeats half of the table (GLM-4)
  bool widens_heads = false;   ///< and in fp32 (Cohere)
  bool rotates_first = false;  ///< norms of heads come behind the rotation (Hunyuan)
  bool wide_rotation = false;  ///< cosines and sines are fp32, and so is what they turn (OLMo)
  bool heads_first = false;    ///< norms of heads come behind the transposition (Gemma 3)
  bool turns_narrow = false;   ///< of these: halves are put together in 16 bits (ERNIE 4.5)
  bool half_table = false;     ///< half a head's angles; its halves turn apart (GPT-OSS)
  bool slices = false;   ///< queries, keys, values: slices, whose gradients fill zeros (Phi-3)
  bool by_head = false;  ///< a head's query, key and value stand side by side (GPT-NeoX)
  bool selects = false;  ///< these are selected, and distances added within the product (BLOOM)
  bool indexes = false;  ///< keys and values are indexed for each query's head, and masked (Falcon)
  bool single_key = false;      ///< all heads' key and value are split off by a head of their own
  bool turns_weights = false;   ///< a product's weight is turned before it is converted (Falcon)
  bool scales_queries = false;  ///< by the module, before their product with keys (OPT)
  bool residual_first = false;  ///< a parallel block adds attention to its input first (Cohere)
  bool flat = false;            ///< feed-forward layers have tokens in one dimension (OPT)
  bool counted = false;         ///< positions are sums over a mask of each sample (OPT)
};

struct Attention {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  ///< fewer than `heads`: grouped queries
  std::int64_t head_width = 64;
  bool flash = true;  ///< else scores and probabilities are materialised
  AttentionKernel kernel = AttentionKernel::sdpa;
  bool dropout = false;  ///< on the probabilities
  bool causal = true;
  std::int64_t value_width = 0;  ///< of a head's values; 0: as `head_width`
  std::int64_t keys = 0;         ///< tokens attended to; 0: those of the queries
  std::int64_t window = 0;       ///< of which a query sees this many; 0: all
  bool softcap = false;          ///< tanh of the scores
  /// Where scores are materialised, they are scaled, masked and put through the softmax by one
  /// kernel (Megatron-LM's fused_kernels).
  bool fused_softmax = false;
  /// Where no such kernel is used, their softmax makes fp32 of 16 bits, and 16 bits of what it
  /// gives: as Llama's reference code and Hugging Face's decoders with RMS norms do.
  bool wide_softmax = false;
  bool biased = false;   ///< a bias per head and distance is added to the scores
  bool fused = false;    ///< queries, keys and values are one tensor, in any proportion
  bool partial = false;  ///< rotate: some channels of a head alone, which torch.cat puts back
  std::int64_t rotated_width = 0;  ///< of these channels, where the shape says; 0: all
  std::int64_t table = 0;          ///< longest sample that ALiBi's table is made for
  bool shared_table = false;       ///< rotate: cosines and sines are made once for all layers
  /// Trained numbers that are added to the scores (T5's biases, GPT-OSS's sinks): how many, and
  /// which of the unit's tensors; 0: none.
  std::int64_t trained_bias = 0;
  std::uint32_t bias_parameter = 0;
  Spelling spelling = {};

  std::int64_t values() const { return value_width > 0 ? value_width : head_width; }
  std::int64_t rotated() const { return rotated_width > 0 ? rotated_width : head_width; }
};

/// How channels of low-rank attention turn: as halves of a head, as pairs of neighbours (DeepSeek
/// V3), or as complex numbers (V2).
enum class LatentRotation : std::uint8_t { halves, pairs, complex, none };

/// Low-rank keys and values (transformer.hpp: LatentAttention), as their layer needs them.
struct Latent {
  std::int64_t heads = 1, key_rank = 0, plain_width = 0, rotated_width = 0, value_width = 0;
  LatentRotation rotation = LatentRotation::halves;
};

/// How transformers' ...TopKRouter of a family weighs experts and picks some for each token.
struct Router {
  enum class Weighing : std::uint8_t { softmax, softmax_of_chosen, sigmoid };
  /// Which layers read tokens in one dimension: router and experts from one view, each from its
  /// own, or all of the feed-forward part.
  enum class Views : std::uint8_t { together, apart, throughout };

  Weighing weighing = Weighing::softmax;
  Views views = Views::together;
  bool wide = false;         ///< its product is of fp32
  bool wide_weight = false;  ///< and its weight is kept so: the module asks for it
  bool narrow = false;       ///< weights of experts return to the activations' type
  bool corrected = false;    ///< what is not trained is added to the scores that choose
  std::int64_t groups = 0;   ///< the best of which alone take part (DeepSeek V3); 0: no groups
  std::int64_t kept_groups = 0;
  bool normed = false;   ///< weights are divided by their sum, in place
  bool clamped = false;  ///< out of place, by a sum that is clamped (ERNIE 4.5)
  bool shifted = false;  ///< by a sum and a small number (DeepSeek V3)
  bool scaled = false;   ///< weights are multiplied by a number
};

/// Experts as one grouped product each way, as transformers, torchtitan and Megatron-LM have them.
struct ExpertGroup {
  std::int64_t count = 8, active = 2;
  std::int64_t width = 0;
  bool biases = false;
  Router router = {};
  bool gated = true;     ///< SwiGLU; else a squared ReLU between two products
  bool clamped = false;  ///< SwiGLU of clamped sides, one of them plus 1 (GPT-OSS)
  /// The router's weights multiply what stands between the products, in the activation's kernel;
  /// else what comes out of the second one.
  bool weighs_activation = false;
  std::int64_t latent = 0;  ///< Experts::latent
  double capacity = 0;      ///< 0: dropless
  /// torch._grouped_mm computes all of them, as Hugging Face's and torchtitan's experts ask; else
  /// one product comes after the other, as in TransformerEngine's GroupedLinear.
  bool grouped = false;
  /// A loop in Python over experts, transformers' `eager`: not `grouped`.
  bool eager = false;
  std::int64_t held = 0;            ///< experts whose weights this rank has; 0: all
  std::int64_t sharing = 1;         ///< ranks whose tokens it computes its part of the width for
  std::int64_t replicas = 1;        ///< ModelParallel::replicated_experts
  double imbalance = 1;             ///< tokens that this rank gets over its fair share
  bool remakes_activation = false;  ///< what stands between the products is made again in backward

  /// As grouped_mm_experts_forward of transformers computes them, whole on each rank.
  bool as_transformers() const {
    return grouped && held == 0 && sharing == 1 && replicas == 1 && latent == 0 && capacity == 0 &&
           !weighs_activation;
  }
  std::int64_t own() const { return held > 0 ? held : count / replicas; }
  /// Channels that an expert's first product makes.
  std::int64_t wide() const { return gated ? 2 * width : width; }
  /// Rows that it computes for each that it sends.
  double received() const { return imbalance * static_cast<double>(sharing); }
};

/// A table of `rows` vectors as wide as the activation, registered as the unit's `parameter`th
/// tensor. Tokens choose rows, or `own_ids` (all 0); with `positions` row i is token i's.
struct Embedding {
  std::int64_t rows = 0;
  std::uint32_t parameter = 0;
  bool positions = false;
  bool own_ids = false;
  bool by_sample = false;  ///< `positions`: each sample has its own (RoBERTa)
  bool counted = false;    ///< Spelling::counted
  bool narrow = false;     ///< the table is kept in 16 bits, whatever the precision is
};

/// How a language model's loss is made of its logits.
enum class Loss : std::uint8_t {
  /// torch.nn.functional.cross_entropy of the logits as the last product leaves them.
  cross_entropy,
  /// That of logits.float(), as torchtitan computes it.
  cross_entropy_fp32,
  /// Causal language models of Hugging Face's transformers up to 4.44: logits.float(), a contiguous
  /// copy without the last position, and the cross entropy of that.
  huggingface,
  /// Lightning Fabric with a model in 16 bits: convert_output() makes fp32 of all logits, chunks
  /// too, and the training loop holds them until backward is done.
  lightning_fabric,
  /// One kernel reads the logits as they are, and writes their gradient over them: flash-attn with
  /// inplace_backward, Apex's, TransformerEngine's, Liger's and Unsloth's cross entropies.
  fused_logits,
  /// Megatron-LM's: an fp32 copy of the logits becomes their softmax, and then their gradient
  /// (core/tensor_parallel/cross_entropy.py).
  vocab_parallel,
  /// The fp32 one as torch.compile makes it, whatever the network is (torchtitan's compile
  /// components): one kernel each way reads the logits as they are, and makes their gradient.
  compiled,
  /// fused_logits, behind which accelerate's mixed precision makes fp32 of the logits that forward
  /// returns; backward starts without them (accelerate/utils/operations.py).
  accelerate_fused,
  /// As `huggingface`, of 4.46 to 4.49: forward holds the logits themselves, too, until it returns
  /// (transformers/loss/loss_utils.py: ForCausalLMLoss).
  huggingface_4_46,
  /// `huggingface` whose cross entropy is a kernel that writes the gradient over the shifted fp32
  /// copy: Liger's or Unsloth's in the place of torch.nn.CrossEntropyLoss.
  huggingface_fused,
  /// The same of `huggingface_4_46`.
  huggingface_4_46_fused,
  /// lightning_fabric in a loop whose variables hold the last micro-batch's logits until the next
  /// are there, and its graph until the next loss is: with it the inputs that bitsandbytes before
  /// 0.43 saves as attributes of its nodes, which backward does not free (litgpt).
  lightning_loop
};

/// True of a loss that a library's kernel computes: it writes the gradient over what it read.
bool is_librarys(Loss loss);
/// True of a loss of transformers: of a shifted fp32 copy of the logits.
bool is_shifted(Loss loss);

/// How logits and their loss are made, piece by piece.
struct LossParts {
  std::int64_t chunks = 0;  ///< as many products and losses; 0: one
  bool fused = false;       ///< each chunk's gradients are made in forward, and no logits kept
  /// Each chunk's backward follows its forward, by PyTorch's own operators: no chunk is kept
  /// (torchtitan's ChunkedLossWrapper, TRL's chunked_nll).
  bool at_once = false;

  bool any() const { return chunks > 0 || fused; }
};

/// LoRA's two matrices beside one of a linear layer's outputs: A is the tensor `parameter`, and B
/// the one after it.
struct Adapter {
  std::uint32_t side = 0;  ///< which of the outputs side by side
  std::int64_t rank = 0;
  std::uint32_t unit = 0, parameter = 0;
  bool dropout = false;
  std::int64_t up = 0;  ///< elements of B
  /// Outputs that it adds to, of a fused product where it leaves some out: they are copied into
  /// zeros of the whole width (litgpt's LoRAQKVLinear); 0: all of them.
  std::int64_t padded = 0;
};

/// How a norm is computed where transformers writes it out.
enum class NormForm : std::uint8_t {
  usual,        ///< torch's layer norm; of RMS norms Llama's, which scale in 16 bits
  wide,         ///< an RMS norm that scales in fp32 (OLMo 2, GPT-OSS)
  offset,       ///< by 1 more than its weight: an RMS norm in fp32 (Gemma), a layer norm (Nemotron)
  plain,        ///< in fp32 without parameters (OLMo's layer norms, Llama 4's of heads)
  written_out,  ///< a layer norm of single operators in fp32, no shift (Cohere)
  of_input      ///< an RMS norm whose factor scales what it was given, not the fp32 copy (T5)
};

/// PyTorch operators that a layer calls, for its memory tape.
enum class LayerKind : std::uint8_t {
  linear,
  layer_norm,
  rms_norm,
  gelu,
  tanh,
  sigmoid,
  dropout,
  add,
  cross_entropy,
  convolution,
  batch_norm,
  relu,
  silu,
  max_pool,
  average_pool,
  adaptive_pool,
  mean,
  concatenate,
  multiply,
  layer_scale,
  stochastic_depth,
  embedding,
  rotate,
  attention,
  swiglu,
  select,
  gelu_new,
  gelu_fast,
  gelu_written,
  rectify,
  silu_out,
  scale,
  scale_logits,
  softcap,
  head_norm,
  latent_heads,
  experts,
  gate,
  class_token,
  cross_attention,
  scatter,  ///< of the tokens among the ranks of a tensor-parallel group
  mixer,    ///< a file of model/mixers
  square,
  square_apart,  ///< of a ReLU whose kernel is its own in libraries, too
  without_gate,  ///< what stands before the gate in the outputs of a product
  output_gate,
  by_position,  ///< nn.MultiheadAttention's copy of its input, whose first axis is the batch
  unpack_heads  ///< and its copy of the packed product, of which it selects three
};

/// One layer of a unit as eager mode runs it: which values it reads and makes. Values are numbered
/// throughout a model from 0, the batch.
struct Layer {
  LayerKind kind = LayerKind::add;
  std::uint32_t input = 0;
  std::uint32_t other = 0;  ///< of layers with two inputs
  std::uint32_t output = 0;
  Extent in = {}, out = {};
  /// Its parameter tensors: the first one's index into Unit::tensors, of the unit that owns it.
  std::uint32_t unit = 0, parameter = 0;
  std::vector<std::int64_t> channels = {};  ///< linear: outputs side by side
  std::vector<std::string> names = {};      ///< linear: of these outputs ("q", "k", "v"), or none
  std::vector<Adapter> adapters = {};       ///< linear
  bool splits_inputs = false;  ///< linear: a tensor rank has weights of a part of its inputs
  bool bias = false;           ///< linear, layer_norm
  /// linear: its weight is the first unit's first tensor, and `parameter` its bias.
  bool tied = false;
  NormForm norm = NormForm::usual;  ///< layer_norm, rms_norm, head_norm
  bool in_place = false;            ///< add, dropout
  bool flattens = false;            ///< all that read its input have tokens in one dimension
  bool lists = false;               ///< concatenate: its inputs stay apart, side by side
  bool gelu = false;                ///< swiglu: GELU gates in SiLU's place
  bool divides = false;             ///< scale_logits: by a number
  bool channels_last = false;       ///< the memory format of its input
  bool held = false;                ///< its output is a local variable of the unit's forward
  bool releases = false;            ///< those local variables end with it
  Convolution convolution = {};
  Pooling pooling = {};
  Attention attention = {};
  Embedding embedding = {};
  Latent latent = {};
  ExpertGroup experts = {};
  MixerPtr mixer = nullptr;
  Loss loss = Loss::cross_entropy;
  LossParts loss_parts = {};  ///< of the logits' linear layer
  bool narrows = false;       ///< linear: Operator::narrows
  bool dtensor = false;       ///< linear: ModelParallel::dtensor
  bool transposed = false;    ///< linear: its weight is in by out (transformers' Conv1D)
  bool turned = false;        ///< linear: Spelling::turns_weights
  bool recomputed = false;    ///< attention: it keeps no more than its inputs until backward
  /// Its operators: those of its unit from `first_operator` on, in front of `end_operator`.
  std::uint32_t first_operator = 0, end_operator = 0;
  /// True if the tensors that its forward keeps are given back at the unit's end and made again in
  /// front of the unit's backward (recomputation.hpp); but for these of its products, and what
  /// ranks exchanged.
  bool remade = false;
  std::vector<bool> kept_products = {};
  bool keeps_exchanges = false;
};

}  // namespace rehearse::inline model
