#pragma once

#include <optional>

#include "model/layer.hpp"
#include "model/tape/autograd.hpp"

// PyTorch's operators as far as the allocator sees them: what each takes in forward, saves, and
// takes in backward, in order (torch's native_functions.yaml, derivatives.yaml and ATen's kernels,
// version 2.13). Sizes are elements of the whole batch.
namespace rehearse::tape {

/// A parameter, or what autocast puts in its place where a product reads it.
struct Parameter {
  std::uint32_t unit = 0, index = 0;
  Sizes sizes = {};
  std::int64_t elements() const { return sizes.elements(); }
};
Tensor parameter(Recorder& recorder, const Parameter& which);
Tensor product_parameter(Recorder& recorder, const Parameter& which);

/// tensor.to(type): itself if it has it.
Tensor to(Recorder& recorder, const Tensor& input, Type type);
/// The input as autocast gives it to an operator that runs in 16 bits, or on CUDA in fp32.
Tensor lower(Recorder& recorder, const Tensor& input);
Tensor widen_on_cuda(Recorder& recorder, const Tensor& input);
/// A copy in the order of its dimensions; of `contiguous` where it is not in it.
Tensor clone(Recorder& recorder, const Tensor& input);
Tensor contiguous(Recorder& recorder, const Tensor& input);

// Views (views.cpp). A reshape copies where no view has these sizes, forward or backward.
Tensor reshape(Recorder& recorder, const Tensor& input, const Sizes& sizes);
Tensor transpose(Recorder& recorder, const Tensor& input, std::size_t one, std::size_t other);
Tensor unsqueeze(Recorder& recorder, const Tensor& input, std::size_t dimension);
Tensor expand(Recorder& recorder, const Tensor& input, const Sizes& sizes);
/// `size` of a dimension, each `step`th; backward fills the rest with zeros.
Tensor slice(Recorder& recorder, const Tensor& input, std::size_t dimension, std::int64_t size,
             std::int64_t step = 1);
/// One of a dimension, which goes.
Tensor select(Recorder& recorder, const Tensor& input, std::size_t dimension);
/// Parts of a dimension side by side, one node; `chunk`: of the last, as many of one size.
Tensors split(Recorder& recorder, const Tensor& whole, std::size_t dimension,
              const std::vector<std::int64_t>& sizes);
Tensors chunk(Recorder& recorder, const Tensor& whole, std::size_t count);
/// torch.cat, or torch.stack of parts that have the dimension.
Tensor concatenate(Recorder& recorder, const Tensors& parts, std::size_t dimension,
                   std::string_view op = "cat");

// Element by element (elementwise.cpp).
/// An operator and its derivative.
struct Unary {
  std::string_view forward, backward;
};
/// x and dy are all that backward needs, or y and dy: out of place.
Tensor unary_of_input(Recorder& recorder, const Tensor& input, const Unary& op);
Tensor unary_of_output(Recorder& recorder, const Tensor& input, const Unary& op);
inline constexpr Unary kGelu{"gelu", "gelu_backward"}, kSilu{"silu", "silu_backward"},
    kTanh{"tanh", "tanh_backward"}, kSigmoid{"sigmoid", "sigmoid_backward"},
    kRelu{"relu", "threshold_backward"}, kSquaredRelu{"squared_relu", "squared_relu_backward"},
    kSoftmax{"_softmax", "_softmax_backward_data"};
/// torch.clamp to a lower bound, an upper one, or both.
Tensor clamp(Recorder& recorder, const Tensor& input, bool low, bool high);
/// Without autograd.
Tensor pointwise(Recorder& recorder, std::string_view op, const Tensor& one);
Tensor pointwise(Recorder& recorder, std::string_view op, const Tensor& one, const Tensor& other);
// What torch.compile makes one kernel of: an activation times another tensor, a rotation, an RMS
// norm. Products keep their inputs: the min-cut partitioner makes nothing again that backward would
// have to write to memory.
Tensor fused_product(Recorder& recorder, const Tensor& gate, const Tensor& up);
/// Of the two halves of one tensor.
Tensor fused_halves(Recorder& recorder, const Tensor& both);
Tensor fused_copy(Recorder& recorder, const Tensor& input);
Tensor relu_in_place(Recorder& recorder, const Tensor& input);
Tensor silu_in_place(Recorder& recorder, const Tensor& input);
Tensor dropout(Recorder& recorder, const Tensor& input);
/// Of a view: noise is made by kernels of its own, as no kernel drops in place
/// (aten/src/ATen/native/Dropout.cpp).
Tensor dropout_in_place(Recorder& recorder, const Tensor& input);
/// Rows of a tensor in another order, or other elements of it; the order is saved.
Tensor gathered(Recorder& recorder, const Tensor& input, const Tensor& order, const Sizes& sizes);

/// The copy that a CPU kernel makes of a side of another type than it computes in; undefined where
/// none is made.
Tensor widened(Recorder& recorder, const Tensor& side, Type type);
Tensor add(Recorder& recorder, const Tensor& left, const Tensor& right);
Tensor add_in_place(Recorder& recorder, const Tensor& left, const Tensor& right);
/// Product of two tensors, with broadcasting.
Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right);
/// A tensor times a Python number; backward runs the same operator ("mul", "div").
Tensor scale(Recorder& recorder, const Tensor& input, std::string_view op = "mul");
/// A new tensor of an operator between a tensor and a number, without autograd.
Tensor with_number(Recorder& recorder, std::string_view op, const Tensor& input);
Tensor add_number(Recorder& recorder, const Tensor& input);
Tensor negate(Recorder& recorder, const Tensor& input);
void divide_in_place(Recorder& recorder, const Tensor& tensor);
Tensor subtract(Recorder& recorder, const Tensor& left, const Tensor& right);
/// x^n: its derivative is made of x^(n - 1), times n, times dy.
Tensor power(Recorder& recorder, const Tensor& input);

/// x w^T + b.
struct LinearOptions {
  Parameter weight;      ///< out by in; `transposed`: in by out (transformers' Conv1D)
  std::int64_t out = 0;  ///< channels of the output
  std::optional<Parameter> bias = std::nullopt;
  bool transposed = false;
  bool turned = false;    ///< Spelling::turns_weights
  bool function = false;  ///< called as a function, not as a module
  bool wide = false;      ///< input and weight are made fp32, but under autocast
  /// Positions of the input once it is gathered from the ranks that share the tokens: it keeps its
  /// own, and gathers once more in backward. 0: it has all of them.
  std::int64_t gathered = 0;
  /// Positions of the output once it is summed over ranks and scattered; 0: it is not.
  std::int64_t scattered = 0;
  /// The input in 8 bits, of a product in them: what is saved. Nothing: it is of 16 or 32.
  std::optional<Tensor> narrow = std::nullopt;
  bool float8 = false;  ///< torchao's: its sides are made narrow for each product
};
Tensor linear(Recorder& recorder, const Tensor& input, const LinearOptions& options);
/// x w^T by a weight, out by in, that a mixer holds.
Tensor linear(Recorder& recorder, const Tensor& input, const Tensor& weight);
/// Result of a collective on a tensor, out of place: of other sizes, or of so many positions (all
/// but the last dimension), and the other way in backward.
Tensor exchanged(Recorder& recorder, const Tensor& input, const Sizes& sizes);
/// The sizes with so many channels, the last dimension, at so many positions.
Sizes with_positions(const Sizes& sizes, std::int64_t channels, std::int64_t positions);
inline Tensor exchanged(Recorder& recorder, const Tensor& input, std::int64_t positions) {
  return exchanged(recorder, input, with_positions(input.sizes, input.sizes.back(), positions));
}

/// LoRA's two products, each a linear layer without a bias.
struct AdapterOptions {
  LinearOptions down, up;
  bool dropout = false;
  bool quantized = false;   ///< the weight beside them
  std::int64_t padded = 0;  ///< channels of the whole output, where `up` makes a part; 0: all
};
/// Output of the adapted layer: what its weight made of `input`, and the adapter's share.
Tensor adapted(Recorder& recorder, Tensor result, const Tensor& input,
               const AdapterOptions& options);

/// Of the last dimension.
struct NormOptions {
  Parameter scale;    ///< and the shift after it
  bool shift = true;  ///< layer norm
  NormForm form = NormForm::usual;
};
Tensor layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);
Tensor rms_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);
Tensor batch_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);

/// Windows; backward needs x, and of a maximum the windows' largest.
Tensor pool(Recorder& recorder, const Tensor& input, const Sizes& out, const Pooling& options,
            const Unary& op);
inline constexpr Unary kMaxPool{"max_pool2d_with_indices", "max_pool2d_with_indices_backward"},
    kAveragePool{"avg_pool2d", "avg_pool2d_backward"},
    kAdaptivePool{"_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward"};
/// torch.mean(keepdim=True) of dimensions.
Tensor mean(Recorder& recorder, const Tensor& input, const std::vector<std::size_t>& dimensions);

Tensor convolution(Recorder& recorder, const Tensor& input, const Layer& layer);

/// Weights of each token's experts, tokens by experts that it passes, and which these are.
Tensor routed(Recorder& recorder, const Tensor& logits, const ExpertGroup& options, Tensor& chosen);

Tensor embedding(Recorder& recorder, const Tensor& rows, const Parameter& table);
/// Mean over `targets` of the logits, positions by classes.
Tensor cross_entropy(Recorder& recorder, const Tensor& logits);
/// The same in fp32: `logits` go once they are converted. The last position of each sample is cut
/// off if `shifts`.
Tensor cross_entropy_fp32(Recorder& recorder, Tensor logits, bool shifts = false);
/// The logits in fp32, less their last positions; they go once they are converted.
Tensor shifted_fp32(Recorder& recorder, Tensor logits, bool shifts);

/// Loss::compiled, Loss::fused_logits and Loss::vocab_parallel.
Tensor compiled_cross_entropy(Recorder& recorder, const Tensor& logits);
Tensor fused_cross_entropy(Recorder& recorder, const Tensor& logits);
Tensor vocab_parallel_cross_entropy(Recorder& recorder, const Tensor& logits);

struct AttentionSize {
  Attention options;
  std::int64_t tokens = 0;
  Parameter bias = {};  ///< of the scores; no sizes: none
  /// What the network has made for all layers' scores; undefined: each makes its own.
  Tensor mask = undefined();
  Tensor slopes = undefined();  ///< ALiBi's
};
/// Queries, keys and values, (samples, heads, tokens, width) each, of such or of one tensor or
/// three of (samples, tokens, heads * width).
Tensors heads_of(Recorder& recorder, const Tensors& inputs, const Attention& options);
/// By one kernel: of queries, keys and values as `heads_of` gives them.
Tensor flash_attention(Recorder& recorder, Tensors inputs, const AttentionSize& size);
/// Gives the heads side by side, and what they were before, which may be the same memory.
Tensors attention(Recorder& recorder, const Tensors& inputs, const AttentionSize& size);

}  // namespace rehearse::tape
