#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "model/exchange.hpp"
#include "model/layer.hpp"
#include "model/recorded_operator.hpp"

namespace rehearse::captured {
struct Kernel;
struct Step;
}  // namespace rehearse::captured

namespace rehearse::inline model {

/// The numeric formats of a training run, in PyTorch's words. `fp32` is PyTorch's default: fp32
/// storage and matrix products (torch.backends.cuda.matmul.allow_tf32 = False), but convolutions in
/// tf32 on GPUs that have it (torch.backends.cudnn.allow_tf32 = True). `tf32`: fp32 storage, both
/// in tf32. `bf16` and `fp16`: torch.autocast (fp32 parameters and gradients, 16-bit activations
/// and matrix products). `bf16_pure`: parameters, gradients, activations and optimizer states bf16
/// (model.to(torch.bfloat16)). `bf16_master` and `fp16_master`: the same but for an optimizer that
/// keeps fp32 master weights and fp32 states (DeepSpeed, Megatron-LM). `bf16_pure_autocast`: bf16
/// parameters under autocast (Hugging Face's Trainer with bf16 and torch_dtype=bfloat16). `fp8`,
/// `mxfp8` and `nvfp4`: as bf16_master, but linear layers of blocks multiply in 8 bits with a scale
/// per tensor (TransformerEngine's hybrid format, delayed scaling) or per 32 elements (Blackwell),
/// or in 4 bits with a scale per 16 elements (TransformerEngine's NVFP4BlockScaling, all three
/// products). The last two are only computed in, under FSDP's
/// MixedPrecision(param_dtype=torch.float16).
enum class Precision {
  fp32,
  tf32,
  bf16,
  fp16,
  bf16_pure,
  bf16_master,
  fp16_master,
  bf16_pure_autocast,
  fp8,
  mxfp8,
  nvfp4,
  fp16_pure,
  fp16_pure_autocast
};

std::string to_string(Precision precision);
/// Precisions that a scenario can name.
const std::vector<std::string>& precision_names();
Precision parse_precision(const std::string& name);  ///< throws std::invalid_argument

/// Bytes of one element of a parameter (and of its gradient) and of an activation under
/// `precision`.
Bytes parameter_element(Precision precision);
Bytes activation_element(Precision precision);
/// Whether activations are bf16.
bool is_bf16(Precision precision);

/// True inside torch.autocast: products run in 16 bits, on copies of parameters that have 32.
bool is_autocast(Precision precision);
/// True where linear layers of blocks multiply in 8 or 4 bits.
bool is_narrow(Precision precision);
/// Bytes of an element there, with its share of a scale: 1, of mxfp8 1 + 1/32, of nvfp4 1/2 + 1/16
/// (OCP Microscaling Formats 1.0; TransformerEngine). 0: none is narrow.
Bytes narrow_element(Precision precision);
/// True where the optimizer keeps an fp32 copy of 16-bit parameters.
bool has_master_weights(Precision precision);
/// Precision that the units compute in: master weights are the optimizer's affair alone.
Precision computed_in(Precision precision);

/// Storage of a parameter tensor: how it is kept in training.
enum class StoredAs : std::uint8_t {
  model,  ///< as the precision says
  fp32,
  bf16,
  int8,        ///< a byte, and an fp32 scale per row (LLM.int8, Dettmers et al. 2022)
  nf4,         ///< QLoRA's (Dettmers et al. 2023): 4 bits, and an fp32 scale per 64
  nf4_double,  ///< the same with scales in 8 bits, and an fp32 scale per 256 of these
};
struct ParameterTrait {
  bool trained = true;
  StoredAs storage = StoredAs::model;
  bool keeps_input = false;  ///< of a quantized weight: its product saves the input all the same

  bool quantized() const { return storage >= StoredAs::int8; }
  bool operator==(const ParameterTrait&) const = default;
};
/// Bytes of one element, scales of 64 elements and of rows of 4,096 included.
Bytes stored_element(StoredAs storage, Precision precision);

/// The main work of a kernel, which decides which peak rate bounds it. A `cast` is a conversion
/// between 16 and 32 bits that only autocast inserts. A `layout` is one between NCHW and NHWC that
/// cuDNN inserts around a convolution on tensor cores. Elsewhere they do not exist.
enum class OperatorKind {
  matmul,
  convolution,
  depthwise_convolution,
  attention,
  scan,  ///< of linear attention and of state spaces
  normalization,
  elementwise,
  pooling,
  embedding,
  loss,
  cast,
  layout
};

/// torchao's Float8Linear in blocks: of inputs, weights and gradients of 16 or 32 bits FP8 is made
/// for each product, with a scale for a tensor or for a row. What is saved for backward stays wide.
enum class Float8 : std::uint8_t { none, tensorwise, rowwise };

/// The matrix product that an operator is, of one sample: `rows` x `inner` by `inner` x `columns`;
/// of a convolution the one that it amounts to. A batch has more rows, or where `products` says how
/// many a sample has (attention's heads) more products. No columns: not known.
struct ProductShape {
  double rows = 0, columns = 0, inner = 0;
  double products = 0;
  /// Kernel positions of a convolution, and its input's positions over its output's.
  double window = 1, stride = 1;
  /// Weights of a grouped product that share the rows of a batch evenly; 0: there is one.
  double weights = 0;
  bool together = false;  ///< one kernel computes a grouped product; else one for each weight
};

/// Kernels of eager modules where fused ones and torch.compile have one kernel, per sample.
/// `moved`: elements of four bytes that vectorized kernels move. `written`: elements that others
/// write (broadcast or strided operands). `converted`: elements of 16 bits that are made fp32 and
/// back.
struct EagerKernels {
  double kernels = 0;  ///< 0: the operator is one kernel
  double moved = 0, written = 0, converted = 0;
  double plain = 0;  ///< elements of the activations' own type that vectorized kernels move
};

/// PyTorch's scaled_dot_product_attention has no kernel of its own for fp32 with grouped heads: the
/// flash and cuDNN kernels take no fp32, and the memory-efficient one no grouped heads
/// (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). There it materialises the scores.
bool runs_math_attention(const Attention& attention, Bytes element);

/// A scan over a sequence by kernels of a library, of one sample: `occupied` is what all
/// multiprocessors together are busy with it. Besides there are `steps` one after the other, each
/// of `step`, in `blocks` that run side by side, one to a multiprocessor.
struct Scan {
  Seconds occupied{0};
  double steps = 0;
  Seconds step{0};
  double blocks = 0;
};

/// One kernel-sized piece of a unit's forward pass, per sample of the batch.
struct Operator {
  OperatorKind kind = OperatorKind::elementwise;
  bool channels_last = false;  ///< of a convolution, batch norm or max pooling: its memory format
  /// Elements that batch norm's kernels norm in eager mode, and the number of their channels.
  double normed = 0, channels = 0;
  double pooled = 0;  ///< of eager max pooling: elements of its windows, all together
  /// Elements of a plane, for a conversion around a convolution of 1 x 1. Where each begins at
  /// every 16 bytes, the planes are a product's rows as they are. 0: it is converted.
  double plane = 0;
  /// Floating-point operations per sample, a multiply-add counting 2. The built-in architectures
  /// count products alone (matmul, convolution, attention), as printed FLOP counts do; what else
  /// they do is bound by its traffic.
  double forward_flops = 0;
  double backward_flops = 0;
  /// Elements that the forward kernel reads and writes per sample (activations in and out).
  double forward_elements = 0;
  double backward_elements = 0;
  /// Elements of its parameters, read once per batch (forward) and read and written once
  /// (backward).
  double parameter_elements = 0;
  /// Elements that backward moves once per batch because a parameter is read in slices, each of
  /// which has a gradient of the whole parameter's size.
  double sliced_gradients = 0;
  /// Its activations are fp32 under autocast (layer norm, softmax, loss, and what type promotion
  /// makes fp32).
  bool wide = false;
  /// Its activations are fp32 in any precision, as the model's code asks.
  bool always_fp32 = false;
  /// It reduces rows (layer norm, softmax, loss) in one kernel.
  bool by_row = false;
  /// Kernels that stand in place of the elements above, in eager mode.
  EagerKernels eager_forward = {}, eager_backward = {};
  /// Kernels of the host's launches alone, each way: no module and no node of autograd stands for
  /// them (counters, random numbers, copies of what is changed in place, sums of gradients, cuDNN's
  /// conversions).
  double bare_forward = 0, bare_backward = 0;
  ProductShape product = {};       ///< of matmul, convolution and attention that is not fused
  Attention heads = {.heads = 0};  ///< of fused attention; no heads: it is none
  double tokens = 0;               ///< of fused attention
  bool masked = false;             ///< of attention that is not fused: a causal mask hides pairs
  bool frozen = false;             ///< its parameters get no gradient
  bool input_gradient = true;      ///< of a product: backward makes the gradient of its input
  bool recomputed = false;         ///< of attention: runs once more in front of its backward
  bool library = false;  ///< of a loss or elementwise: torch.compile leaves its kernels as they are
  Scan scan = {};
  bool between_experts = false;        ///< what stands between the products of experts
  StoredAs storage = StoredAs::model;  ///< of a product's weight; each use dequantizes it
  /// A block's linear layer: its product runs in 8 or 4 bits where the precision is_narrow.
  bool narrows = false;
  /// Elements of its input, per sample, that are made narrow first; 0: another product did it.
  double quantized_input = 0;
  /// Tensor ranks whose parts of a product's input, or of its output's gradient, DTensor gathers.
  /// torchao's tensor-wise recipe makes each part narrow first, and a copy of it moves bytes.
  double input_ranks = 1, gradient_ranks = 1;
  Float8 float8 = Float8::none;
  /// Calls of one kernel in one pass, in a captured model (model/captured). Their time comes from
  /// it; of what stands above, the FLOPs are filled in.
  std::shared_ptr<const captured::Kernel> kernel = {};

  /// Whether its product runs in 8 or 4 bits.
  bool runs_narrow(Precision precision) const {
    return narrows && (is_narrow(precision) || float8 != Float8::none);
  }
};

/// Share of an operator's counted FLOPs that belongs to pairs of a query and a key which its masks
/// leave.
double seen_share(const Operator& op);

/// A group of layers that is timed, sharded and bucketed together.
struct Unit {
  std::string name;
  /// Elements of each parameter tensor, in registration order (module.parameters()).
  std::vector<std::int64_t> tensors;
  /// Traits by `tensors`; empty: all are trained, and kept as the precision says.
  std::vector<ParameterTrait> traits = {};
  std::vector<Operator> operators;
  /// Calls of its eager modules, in order (of a computed unit).
  std::vector<Layer> layers = {};
  /// Elements of buffers that are no parameters (batch-norm running statistics), fp32.
  std::int64_t buffer_elements = 0;
  /// Elements that lie idle beside a trained copy (PEFT's modules_to_save).
  std::int64_t kept_copies = 0;
  /// Parameters, among its own, of the experts that a token does not pass.
  std::int64_t idle_parameters = 0;

  /// Times and bytes that are given instead of computed, for the whole batch (an inline model):
  /// they replace the operators.
  std::optional<Seconds> forward = std::nullopt;
  std::optional<Seconds> backward = std::nullopt;
  std::optional<Bytes> activation = std::nullopt;
  /// CPU time to launch the unit's kernels, each way.
  Seconds host_launch{0};

  /// Exchanges of a rank's share of a model (parallel.hpp), by pass, in the order in which they are
  /// issued.
  std::vector<Exchange> exchanges = {};
  /// Shares by tensor; empty where no tensor or expert axis splits the model.
  std::vector<ParameterShare> shares = {};
  /// Number of the unit in captured::Step::units, in a captured model.
  std::uint32_t captured_unit = 0;
  /// Of a model that a run's record measured: what its forward calls, in order.
  std::vector<recorded::Operator> recorded = {};
  /// What it is handed of a sample by the unit before and hands to the next one, each as one
  /// tensor; 0: not known, or more than one.
  Bytes handed{0}, hands_on{0};

  std::int64_t parameters() const;
  ParameterTrait trait(std::size_t tensor) const {
    return traits.empty() ? ParameterTrait{} : traits[tensor];
  }
  bool is_of_experts(std::size_t tensor) const {
    return !shares.empty() && shares.at(tensor) == ParameterShare::expert;
  }
  std::int64_t trainable_parameters() const;
  double forward_flops() const;  ///< of one sample
};

/// Units that run by themselves, from an input to an output of their own, as a part of a pipeline
/// does.
struct Chunk {
  std::size_t first = 0, end = 0;  ///< into Model::units
  std::uint32_t input = 0;         ///< the value that it is given; 0: a batch
  bool has_loss = true;            ///< else its output goes to another
  /// Under CUDA's autocast its input is fp32, however narrow parameters are.
  bool wide_input = false;
  /// A pipeline's engine holds what its last layer gave the loss, until backward is done.
  bool holds_output = false;
  bool operator==(const Chunk&) const = default;
};
/// Bytes of one of its parameter tensors.
Bytes stored_bytes(const Unit& unit, std::size_t tensor, Precision precision);

/// torch.compile, whose kernels are fused: of all, or of each block by itself (PyTorch's regional
/// compilation), so that embeddings, head and loss stay eager; or of each module of a block by
/// itself: norms, rotary embeddings and activations are one kernel each way, as Liger Kernel's and
/// TransformerEngine's, and nothing between them is fused. A library's kernels are as fused as
/// those of `whole`, and Python calls each.
enum class Compile { none, modules, blocks, whole, library };

/// A network as a chain of units in forward order.
struct Model {
  std::string name;
  std::vector<Unit> units;
  /// Chunks of a rank of a pipeline (stages.hpp), ascending; empty: the units are one whole
  /// network.
  std::vector<Chunk> chunks = {};
  /// Description of one sample: "3x224x224 image", "sequence of 128 tokens".
  std::string sample;
  /// Elements of one input sample.
  double input_elements = 0;
  /// Pixels per side of a sample; 0 for sequences.
  std::int64_t image = 0;
  /// Tokens per sample; 0 for images.
  std::int64_t tokens_per_sample = 0;
  /// Options that change what it computes but neither its units nor its sample ("channels_last");
  /// empty for PyTorch's defaults, which profiles are measured with.
  std::string variant{};
  /// Where the architecture comes from (paper, torchvision version).
  std::string source;
  /// Hugging Face's model_type, or the built-in network's name; empty: given unit by unit.
  std::string family{};
  std::int64_t layers = 0;  ///< blocks of a transformer; 0 for other networks
  Compile compile = Compile::none;
  Float8 float8 = Float8::none;
  /// Time of the whole optimizer step over all parameters, given instead of computed.
  std::optional<Seconds> optimizer_time = std::nullopt;
  /// Memory that one step takes and gives back, in a captured model; null: layers say it.
  std::shared_ptr<const captured::Step> captured = {};

  /// Whether the unit's modules are one kernel each, at the most.
  bool is_fused(std::size_t unit) const;
  /// Whether torch.compile, or a library, fuses the unit's kernels.
  bool is_compiled(std::size_t unit) const;

  std::int64_t parameters() const;
  /// Parameters that one token's forward pass multiplies or looks up: without the experts that it
  /// does not pass.
  std::int64_t active_parameters() const;
  std::size_t trained_tensors() const;
  std::int64_t trainable_parameters() const;
  /// Elements of weights that multiply in 8 or 4 bits where the precision is_narrow.
  double narrow_parameters() const;
  /// True if a unit has an operator of this kind.
  bool has_operator(OperatorKind kind) const;
  /// Forward FLOPs of one sample.
  double forward_flops() const;
  /// Forward and backward FLOPs of one sample (6 N per token and more for transformers): what MFU
  /// is counted against.
  double flops_per_sample() const;
  /// The same with those pairs of attention alone that masks leave.
  double seen_flops_per_sample() const;
};

/// Options of a built-in architecture; zero or empty means the architecture's own default.
struct ModelShape {
  std::int64_t image = 0;     ///< pixels per side
  std::int64_t sequence = 0;  ///< tokens per sample
  std::int64_t classes = 0;
  bool flash_attention = true;
  AttentionKernel attention_kernel = AttentionKernel::sdpa;
  /// A library's kernel computes sinks and ALiBi, too, and FlashAttention's softcaps.
  bool library_attention = false;
  bool fused_softmax = false;      ///< without flash attention: Attention::fused_softmax
  bool grouped_experts = true;     ///< ExpertGroup::grouped
  bool eager_experts = false;      ///< ExpertGroup::eager
  bool weighs_activation = false;  ///< ExpertGroup::weighs_activation
  /// Blocks at a stack's start and end whose linear layers stay in 16 bits where the precision
  /// is_narrow (Megatron-LM's --num-layers-at-start-in-bf16 and -end-).
  std::int64_t wide_at_start = 0, wide_at_end = 0;
  /// Other than cross_entropy for causal language models alone.
  Loss loss = Loss::cross_entropy;
  LossParts loss_parts = {};
  bool narrow_embeddings = false;  ///< tables of embeddings are kept in 16 bits
  /// Images in torch.channels_last; false is PyTorch's default, torch.contiguous_format.
  bool channels_last = false;
};

/// Names of the built-in architectures: vgg16, resnet50, densenet121, efficientnet_v2_l,
/// convnext_large, bert_large, gpt2, gpt2_xl, llama_7b, llama_70b, small_cnn, small_mlp.
const std::vector<std::string>& architecture_names();
/// One line about an architecture: "ResNet-50 (He et al. 2016), 25.6 M parameters, 224x224".
std::string describe_architecture(const std::string& name);
/// Builds it. Throws std::invalid_argument with a message for the user if the shape does not suit
/// (an image too small for its strides, a sequence length for an image network).
Model build_architecture(const std::string& name, const ModelShape& shape);
std::string to_string(AttentionKernel kernel);
std::string to_string(Loss loss);
const std::vector<std::string>& loss_names();  ///< in the order of Loss
/// True where every token's logits say what the next one is: GPT-2, MPT, Llama.
bool is_causal_language_model(const Model& model);
/// Throws std::invalid_argument with a message for the user if PyTorch does not train the network
/// with so few samples at a time: where a batch norm sees one position it needs two samples.
void check_batch(const Model& model, std::int64_t batch);

}  // namespace rehearse::inline model
