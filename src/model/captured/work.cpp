#include "model/captured/work.hpp"
#include "model/captured/kernel_names.hpp"
#include "model/captured/product_work.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace rehearse::captured {
namespace {

bool is_one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// A convolution's numbers at a batch, forward; `x`, `w`, `y`: input, weight, output.
Operator convolution(const Kernel& kernel, const Tensor& x, const Tensor& w, const Tensor& y,
                     double batch) {
  const bool transposed = kernel.option("transposed", 0, 0) != 0;
  const Tensor &in = transposed ? y : x, &out = transposed ? x : y;
  const double groups = kernel.option("groups", 0, 1);
  double positions = side(out, 0, batch), window = 1, stride = 1, pixels = 1;
  for (std::size_t i = 2; i < w.shape.size(); ++i) {
    positions *= side(out, i, batch);
    pixels *= side(out, i, batch);
    window *= side(w, i, batch);
    stride *= kernel.option("stride", i - 2, 1);
  }
  const double outs = side(w, 0, batch), inner = side(w, 1, batch) * window;
  const bool depthwise = groups > 1 && groups == side(in, 1, batch);
  Operator op;
  op.kind = depthwise ? OperatorKind::depthwise_convolution : OperatorKind::convolution;
  op.channels_last = x.channels_last || y.channels_last;
  op.plane = window == 1 && stride == 1 ? pixels : 0;
  op.forward_flops = 2 * positions * outs * inner;
  op.forward_elements = x.elements(batch) + y.elements(batch) + w.elements(batch);
  op.always_fp32 = x.is_wide();
  op.product = {.rows = positions,
                .columns = outs / groups,
                .inner = inner,
                .products = groups,
                .window = window,
                .stride = stride};
  return op;
}

/// ATen adds a convolution's bias in a kernel of its own, and sums its gradient in another.
/// Backward is one of cuDNN's calls for each gradient (aten/src/ATen/native/Convolution.cpp).
Work convolutions(const Kernel& kernel, double batch) {
  const bool backward = kernel.name == "convolution_backward";
  const std::size_t x = backward ? 1 : 0;
  if (kernel.reads.size() < x + 2 || kernel.writes.empty()) return {.known = false};
  const Tensor& y = backward ? kernel.reads[0] : kernel.writes[0];
  Operator op = convolution(kernel, kernel.reads[x], kernel.reads[x + 1], y, batch);
  const bool bias = backward ? kernel.option("output_mask", 2, 0) != 0 : kernel.reads.size() > 2;
  Work work{.kind = op.kind, .wide = y.is_wide(), .flops = op.forward_flops};
  if (bias) work.moved = (backward ? 1 : 2) * y.bytes(batch);
  if (backward) {
    const bool input = kernel.option("output_mask", 0, 1) != 0;
    const bool weight = kernel.option("output_mask", 1, 1) != 0;
    const double gradients = (input ? 1 : 0) + (weight ? 1 : 0);
    op.backward_flops = gradients * op.forward_flops;
    op.backward_elements = gradients * op.forward_elements;
    op.frozen = !weight;
    op.input_gradient = input;
    work.flops = op.backward_flops;
    work.operators = gradients;
  }
  work.operators += bias ? 1 : 0;
  work.plain = std::move(op);
  return work;
}

/// The tape says whose kernel it is, unless it is PyTorch's own choice, and how far that sees.
/// Queries, keys and values are the first reads of four dimensions; of backward the gradient stands
/// before them.
Work attention(const Kernel& kernel, double batch) {
  std::vector<const Tensor*> four;
  for (const Tensor& one : kernel.reads)
    if (one.shape.size() == 4) four.push_back(&one);
  const std::size_t first = kernel.backward ? 1 : 0;
  if (four.size() < first + 3) return {.known = false};
  const Tensor &q = *four[first], &k = *four[first + 1], &v = *four[first + 2];
  Operator op{.kind = OperatorKind::attention};
  op.heads = {.heads = static_cast<std::int64_t>(side(q, 1, batch)),
              .kv_heads = static_cast<std::int64_t>(side(k, 1, batch)),
              .head_width = static_cast<std::int64_t>(side(q, 3, batch)),
              .dropout = kernel.option("dropout_p", 0, 0) > 0,
              .causal = kernel.option("is_causal", 0, 0) != 0,
              .value_width = static_cast<std::int64_t>(side(v, 3, batch)),
              .keys = static_cast<std::int64_t>(side(k, 2, batch))};
  op.heads.kernel = static_cast<AttentionKernel>(kernel.option("library", 0, 0));
  op.heads.window = static_cast<std::int64_t>(kernel.option("window", 0, 0));
  op.tokens = side(q, 2, batch);
  op.product.products = side(q, 0, batch);
  op.always_fp32 = q.is_wide();
  op.forward_flops = 2 * side(q, 0, batch) * side(q, 1, batch) * op.tokens * side(k, 2, batch) *
                     (side(q, 3, batch) + side(v, 3, batch));
  op.forward_elements = 2 * (q.elements(batch) + k.elements(batch));
  op.backward_flops = 2 * op.forward_flops;
  op.backward_elements = 2 * op.forward_elements;
  const double flops = kernel.backward ? op.backward_flops : op.forward_flops;
  return {.kind = OperatorKind::attention, .plain = std::move(op), .flops = flops};
}

/// The input's products of all steps are one kernel, the state's one after the other (cuDNN).
/// Backward makes the gradients of inputs and states, and those of the weights in one product each.
Work recurrent(const Kernel& kernel, double batch) {
  const Tensor& x = kernel.reads[0];
  const bool first = kernel.option("batch_first", 0, 0) != 0;
  const double steps = side(x, first ? 1 : 0, batch), samples = side(x, first ? 0 : 1, batch);
  Work work{.kind = OperatorKind::matmul};
  const auto add = [&](const Tensor& weight, bool state) {
    const double out = side(weight, 0, batch), in = side(weight, 1, batch);
    Product one{
        .rows = samples * (state ? 1 : steps), .columns = out, .inner = in, .wide = x.is_wide()};
    if (kernel.backward) {
      work.products.push_back(
          {out, in, samples * steps, 1, Product::Role::weight_gradient, one.wide});
      std::swap(one.columns, one.inner);
      one.role = Product::Role::input_gradient;
    }
    one.times = state ? steps : 1;
    work.products.push_back(one);
  };
  bool state = false;
  for (std::size_t i = 1; i < kernel.reads.size(); ++i) {
    if (kernel.reads[i].shape.size() != 2 || kernel.reads[i].shape[0].each != 0) continue;
    add(kernel.reads[i], state);
    state = !state;
  }
  for (const Product& one : work.products) work.flops += one.flops();
  work.known = !work.products.empty();
  return work;
}

Work batch_norm(const Kernel& kernel, double batch) {
  const Tensor& x = kernel.reads[0];
  const double elements = x.elements(batch);
  Operator op{.kind = OperatorKind::normalization,
              .channels_last = x.channels_last,
              .normed = elements,
              .channels = side(x, std::min<std::size_t>(1, x.shape.size() - 1), batch),
              .forward_elements = 3 * elements,
              .backward_elements = 5 * elements,
              .always_fp32 = x.is_wide()};
  return {.kind = op.kind, .plain = op};
}

Work max_pool(const Kernel& kernel, double batch) {
  const Tensor& after = kernel.backward ? kernel.reads[0] : kernel.writes[0];
  const Tensor& before = kernel.backward ? kernel.writes[0] : kernel.reads[0];
  const double window = kernel.option("kernel_size", 0, 1) *
                        kernel.option("kernel_size", 1, kernel.option("kernel_size", 0, 1));
  const double moved = before.elements(batch) + 4 * after.elements(batch);
  Operator op{.kind = OperatorKind::pooling,
              .channels_last = before.channels_last,
              .pooled = after.elements(batch) * window,
              .forward_elements = moved,
              .backward_elements = moved,
              .always_fp32 = before.is_wide()};
  return {.kind = op.kind, .plain = op};
}

/// In place: "add_" is an "add".
std::string plain_name(const std::string& name) {
  return name.size() > 1 && name.back() == '_' ? name.substr(0, name.size() - 1) : name;
}

/// Of an embedding, a gather or an index the rows that are read are as many as those written.
bool looks_up(const std::string& name) {
  return is_one_of(name, {"embedding", "index", "index_select", "gather", "_unsafe_index"});
}

/// Lookups of pooled rows, and the update of those that were read (python,
/// capturing/embeddings.py).
bool is_of_tables(const std::string& name) { return name.starts_with("embedding_bags"); }

bool pools(const std::string& name) {
  return name.find("pool") != std::string::npos || name.find("upsample") != std::string::npos;
}

/// The gradient of a part is copied into zeros of the whole.
bool fills_zeros(const std::string& name) {
  return name == "select_backward" || name == "slice_backward";
}

/// Reads beyond one of each operand: what a norm's kernel for the gradients of its scale and shift
/// reads (aten/src/ATen/native/cuda/layer_norm_kernel.cu).
Bytes read_again(const Kernel& kernel, double batch) {
  if (kernel.reads.empty()) return Bytes(0);
  const bool trains = kernel.writes.size() > 1 && kernel.reads.size() > 1;
  return trains && kernel.name == "native_layer_norm_backward"
             ? kernel.reads[0].bytes(batch) + kernel.reads[1].bytes(batch)
             : Bytes(0);
}

/// PyTorch's kernels are vectorized where operands lie alike, of one type; else they make element
/// by element (aten/src/ATen/native/cuda/CUDALoops.cuh).
double one_by_one(const Kernel& kernel, double batch) {
  if (kernel.writes.empty()) return 0;
  const Tensor& out = kernel.writes[0];
  const double written = out.elements(batch);
  for (const Tensor& read : kernel.reads) {
    const double elements = read.elements(batch);
    if (elements <= 1) continue;
    const bool broadcast = elements < written, widens = read.is_narrow() && out.is_wide();
    if (broadcast || widens || read.strided != out.strided) return written;
  }
  return 0;
}

/// Two tensors of unlike types of floating point.
bool mixes_types(const Kernel& kernel) {
  const auto has = [&](bool wide) {
    return std::ranges::any_of(kernel.reads, [wide](const Tensor& one) {
      return one.shape.size() > 0 && (wide ? one.is_wide() : one.is_narrow());
    });
  };
  return has(true) && has(false);
}

/// A sum over all but the last dimension, whose partial sums blocks add up behind: counters of
/// blocks are cleared before (aten/src/ATen/native/cuda/Reduce.cuh). Four such sums of 6 to 25 MB
/// take 12 to 19 us on an H200 (tests/validation/hopper, kineto.tar.xz), 8 to 11 of them whatever
/// they read.
bool sums_columns(const Kernel& kernel, double batch) {
  if (plain_name(kernel.name) != "sum" || kernel.reads.empty() || kernel.writes.empty())
    return false;
  const Tensor &in = kernel.reads[0], &out = kernel.writes[0];
  if (in.shape.size() < 2 || out.shape.empty()) return false;
  const double kept = out.shape.back().at(batch);
  return kept > 1 && kept == in.shape.back().at(batch) && kept == out.elements(batch) &&
         in.elements(batch) > kept;
}

OperatorKind kind_of(const std::string& name, bool rows) {
  if (rows)
    return name.find("loss") != std::string::npos ? OperatorKind::loss
                                                  : OperatorKind::normalization;
  if (pools(name)) return OperatorKind::pooling;
  if (is_of_tables(name)) return OperatorKind::embedding;
  if (looks_up(name) || name == "embedding_dense_backward") return OperatorKind::embedding;
  return is_one_of(name, {"_to_copy", "copy", "clone"}) ? OperatorKind::cast
                                                        : OperatorKind::elementwise;
}

/// Zeros as large as the whole, and a part that is copied into them: element by element, but where
/// it is one piece of the first dimension.
Work filling(const Kernel& kernel, double batch) {
  const Tensor &part = kernel.reads[0], &whole = kernel.writes[0];
  const double elements = part.elements(batch);
  const double rows = part.shape.size() < whole.shape.size() ? 1 : side(part, 0, batch);
  const bool one_piece =
      !part.strided && elements * side(whole, 0, batch) == rows * whole.elements(batch);
  return {.moved = 2 * part.bytes(batch),
          .one_by_one = one_piece ? 0 : elements,
          .filled = whole.bytes(batch),
          .wide = whole.is_wide(),
          .launches = 2};
}

Work moving(const Kernel& kernel, double batch) {
  const std::string name = plain_name(kernel.name);
  if (fills_zeros(name) && !kernel.reads.empty() && !kernel.writes.empty())
    return filling(kernel, batch);
  Work work{.by_row = is_row_name(name)};
  work.kind = kind_of(name, work.by_row);
  for (const Tensor& one : kernel.writes) work.moved += one.bytes(batch);
  const double written = kernel.writes.empty() ? 0 : kernel.writes[0].elements(batch);
  const bool chosen = name.starts_with("nll_loss");  // it reads one number of each row
  for (const Tensor& one : kernel.reads) {
    if (chosen && one.shape.size() > 1) continue;
    const double elements =
        looks_up(name) ? std::min(one.elements(batch), written) : one.elements(batch);
    work.moved += elements * one.element();
  }
  work.moved += read_again(kernel, batch);
  work.wide = !kernel.writes.empty() && kernel.writes[0].is_wide();
  work.known =
      work.by_row || pools(name) || work.kind == OperatorKind::embedding || is_pointwise_name(name);
  // Reductions, and what clears a tensor before it chooses elements.
  const bool apart = chosen || is_one_of(name, {"sum", "mean", "cat", "var_mean",
                                                "linalg_vector_norm", "embedding_dense_backward"});
  if (!work.by_row && !apart && work.known) work.one_by_one = one_by_one(kernel, batch);
  const auto is_strided = [](const Tensor& one) { return one.strided; };
  if (name == "cat" && std::ranges::any_of(kernel.reads, is_strided)) work.one_by_one = written;
  work.mixed = mixes_types(kernel);
  if (sums_columns(kernel, batch)) work.launches = 3;
  return work;
}

/// A library's function, which says itself what it does (model/tape/library.hpp).
Work library(const Kernel& kernel, double batch) {
  Work work = moving(kernel, batch);
  work.launches = kernel.option("launches", 0, 1);
  work.flops = kernel.option("flops", 0, 0);
  work.by_row = kernel.name.find("norm") != std::string::npos;
  work.known = true;
  if (const double moved = kernel.option("moved", 0, 0); moved > 0) work.moved = Bytes(moved);
  const Seconds occupied(kernel.option("occupied", 0, 0));
  work.kind = occupied > Seconds(0) ? OperatorKind::scan
              : work.by_row         ? OperatorKind::normalization
                                    : OperatorKind::elementwise;
  Operator op{.kind = work.kind, .by_row = work.by_row};
  (kernel.backward ? op.backward_flops : op.forward_flops) = work.flops;
  (kernel.backward ? op.backward_elements : op.forward_elements) = work.moved.value() / 2;
  op.scan = {.occupied = occupied,
             .steps = kernel.option("steps", 0, 0),
             .step = Seconds(kernel.option("step", 0, 0)),
             .blocks = kernel.option("blocks", 0, 0)};
  work.moved = Bytes(0);
  work.plain = std::move(op);
  return work;
}

}  // namespace

Work work_of(const Kernel& kernel, double batch) {
  const std::string& name = kernel.name;
  if (kernel.options.contains("launches")) return library(kernel, batch);
  if (kernel.reads.empty() || kernel.writes.empty()) return moving(kernel, batch);
  if (is_one_of(name, {"mm", "addmm", "bmm", "baddbmm"})) return products(kernel, batch);
  if (kernel.options.contains("inner")) return narrow_product(kernel, batch);
  if (name == "_grouped_mm" && kernel.reads.size() > 1) return grouped(kernel, batch);
  if (is_one_of(name, {"convolution", "convolution_backward"})) return convolutions(kernel, batch);
  if (name.starts_with("_scaled_dot_product_") || kernel.options.contains("library"))
    return attention(kernel, batch);
  if (name.starts_with("_cudnn_rnn")) return recurrent(kernel, batch);
  if (name.find("batch_norm") != std::string::npos) return batch_norm(kernel, batch);
  if (name.starts_with("max_pool2d_with_indices")) return max_pool(kernel, batch);
  return moving(kernel, batch);
}

}  // namespace rehearse::captured
