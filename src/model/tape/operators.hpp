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
  std::int64_t elements = 0;
};
Tensor parameter(Recorder& recorder, const Parameter& which);
Tensor product_parameter(Recorder& recorder, const Parameter& which);

/// tensor.to(type): itself if it has it.
Tensor to(Recorder& recorder, const Tensor& input, Type type);
/// The input as autocast gives it to an operator that runs in 16 bits, or on CUDA in fp32.
Tensor lower(Recorder& recorder, const Tensor& input);
Tensor widen_on_cuda(Recorder& recorder, const Tensor& input);

/// x and dy are all that backward needs, or y and dy: out of place.
Tensor unary_of_input(Recorder& recorder, const Tensor& input);
Tensor unary_of_output(Recorder& recorder, const Tensor& input);
// What torch.compile makes one kernel of: an activation times another tensor, a rotation, an RMS
// norm. Products keep their inputs: the min-cut partitioner makes nothing again that backward would
// have to write to memory.
Tensor fused_product(Recorder& recorder, const Tensor& gate, const Tensor& up);
Tensor fused_copy(Recorder& recorder, const Tensor& input);
Tensor relu_in_place(Recorder& recorder, const Tensor& input);
Tensor silu_in_place(Recorder& recorder, const Tensor& input);
Tensor dropout(Recorder& recorder, const Tensor& input);

/// The copy that a CPU kernel makes of a side of another type than it computes in; undefined where
/// none is made.
Tensor widened(Recorder& recorder, const Tensor& side, Type type);
Tensor add(Recorder& recorder, const Tensor& left, const Tensor& right);
Tensor add_in_place(Recorder& recorder, const Tensor& left, const Tensor& right);
/// Product of two tensors, with broadcasting.
Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right);
/// The same for a right side of which only a view of no gradient is read: `elements` come out.
Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right, std::int64_t elements);
/// A tensor times a Python number.
Tensor scale(Recorder& recorder, const Tensor& input);
/// A new tensor of an operator between a tensor and a number.
Tensor with_number(Recorder& recorder, std::int64_t elements, Type type);
Tensor add_number(Recorder& recorder, const Tensor& input);
void divide_in_place(Recorder& recorder, const Tensor& tensor);
Tensor subtract(Recorder& recorder, const Tensor& left, const Tensor& right);
/// Views side by side, one node.
Tensors chunk(Recorder& recorder, const Tensor& whole, std::size_t count);
/// The same in these proportions.
Tensors split(Recorder& recorder, const Tensor& whole, const std::vector<std::int64_t>& channels);
Tensor concatenate(Recorder& recorder, const Tensors& parts, bool contiguous_slices);
/// Other sizes of the same memory.
Tensor view(Recorder& recorder, const Tensor& input);
/// A copy in the order of its elements, as contiguous() and reshape() make of a permuted tensor;
/// backward leaves the gradient permuted.
Tensor copy(Recorder& recorder, const Tensor& input);
/// Part of a tensor, at the same place: backward fills the rest with zeros.
Tensor slice(Recorder& recorder, const Tensor& input, std::int64_t elements);

/// x w^T + b; positions * in elements by in * out.
struct LinearOptions {
  Parameter weight;
  std::int64_t out = 0;  ///< elements of the output
  std::optional<Parameter> bias = std::nullopt;
  bool matrix = false;    ///< an input of two dimensions: the bias is part of the product
  bool function = false;  ///< called as a function, not as a module
  bool wide = false;      ///< input and weight are made fp32, but under autocast
  /// Elements of the input, once it is gathered from the ranks that share the tokens: it keeps its
  /// own, and gathers once more in backward. 0: it has all of them.
  std::int64_t gathered = 0;
  /// Elements of the output once it is summed over ranks and scattered; 0: it is not.
  std::int64_t scattered = 0;
  /// The input in 8 bits, of a product in them: what is saved. Nothing: it is of 16 or 32.
  std::optional<Tensor> narrow = std::nullopt;
  bool float8 = false;  ///< torchao's: its sides are made narrow for each product
};
Tensor linear(Recorder& recorder, const Tensor& input, const LinearOptions& options);
/// Result of a collective on a tensor, out of place: `elements`, and the other way in backward.
Tensor exchanged(Recorder& recorder, const Tensor& input, std::int64_t elements);

/// LoRA's two products, each a linear layer without a bias.
struct AdapterOptions {
  LinearOptions down, up;
  bool dropout = false;
  bool quantized = false;   ///< the weight beside them
  std::int64_t padded = 0;  ///< elements of the whole output, where `up` makes a part; 0: all
};
/// Output of the adapted layer: what its weight made of `input`, and the adapter's share.
Tensor adapted(Recorder& recorder, Tensor result, const Tensor& input,
               const AdapterOptions& options);

struct NormOptions {
  Parameter scale;  ///< and the shift after it
  std::int64_t channels = 0;
  std::int64_t positions = 0;  ///< of the batch
  bool permuted = false;       ///< layer norm: channels are not the last in memory
  bool shift = true;           ///< layer norm
  NormForm form = NormForm::usual;
};
Tensor layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);
Tensor rms_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);
Tensor fused_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);
Tensor batch_norm(Recorder& recorder, const Tensor& input, const NormOptions& options);

/// `out` elements from windows; backward needs x, and the windows' largest if `indices`.
Tensor pool(Recorder& recorder, const Tensor& input, std::int64_t out, bool indices);
Tensor mean(Recorder& recorder, const Tensor& input, std::int64_t out);

Tensor convolution(Recorder& recorder, const Tensor& input, const Layer& layer);

Tensor embedding(Recorder& recorder, const Tensor& rows, const Parameter& table,
                 std::int64_t elements);
/// Mean over `targets` of the logits.
Tensor cross_entropy(Recorder& recorder, const Tensor& logits);
/// The same in fp32: `logits` go once they are converted. The last positions, `last` elements, are
/// cut off.
Tensor cross_entropy_fp32(Recorder& recorder, Tensor logits, std::int64_t last = 0);
/// The logits in fp32, less their last positions; they go once they are converted.
Tensor shifted_fp32(Recorder& recorder, Tensor logits, std::int64_t last);

/// Loss::compiled, Loss::fused_logits and Loss::vocab_parallel; of so many positions.
Tensor compiled_cross_entropy(Recorder& recorder, const Tensor& logits);
Tensor fused_cross_entropy(Recorder& recorder, const Tensor& logits, std::int64_t positions);
Tensor vocab_parallel_cross_entropy(Recorder& recorder, const Tensor& logits,
                                    std::int64_t positions);

struct AttentionSize {
  Attention options;
  std::int64_t tokens = 0;
  Parameter bias = {};  ///< of the scores; no elements: none
};
/// Queries, keys and values, or one tensor of all three; (batch, tokens, width) each. A fourth is
/// the rotary table: queries and keys then stand head by head in memory.
/// Gives the heads side by side, and before that where it had to copy them.
Tensors attention(Recorder& recorder, const Tensors& inputs, const AttentionSize& size);

}  // namespace rehearse::tape
