// What becomes of the logits: whole, in pieces, or never kept.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.hpp"
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {

Tensor Player::total_loss() {
  Tensor loss = losses_.front();
  for (std::size_t i = 1; i < losses_.size(); ++i) loss = add(recorder_, loss, losses_[i]);
  losses_.clear();
  return loss;
}

Tensor Player::loss(const Layer& layer) {
  Tensor& logits = values_.at(layer.input).front();
  if (holds_output_) outputs_.push_back(logits.detached());
  switch (layer.loss) {
    case Loss::cross_entropy:
      return cross_entropy(recorder_, logits);
    case Loss::lightning_fabric:
      return cross_entropy(recorder_, as_output(logits));
    case Loss::lightning_loop: {
      const Tensor output = as_output(logits);
      outputs_made_ = recorder_.position();
      return cross_entropy(recorder_, output);
    }
    case Loss::fused_logits:
      return fused_cross_entropy(recorder_, logits);
    case Loss::vocab_parallel:
      return vocab_parallel_cross_entropy(recorder_, logits);
    case Loss::compiled:
      return compiled_cross_entropy(recorder_, logits);
    case Loss::accelerate_fused: {
      Tensor loss = fused_cross_entropy(recorder_, logits);
      const Tensor returned = recorder_.workspace(logits.sizes, Type::float32);
      recorder_.record("_to_copy", {&logits}, {&returned});
      return loss;
    }
    case Loss::cross_entropy_fp32:
      return cross_entropy_fp32(recorder_, std::move(logits));
    case Loss::huggingface:
      return cross_entropy_fp32(recorder_, std::move(logits), true);
    case Loss::huggingface_4_46: {
      const Tensor returned = logits;
      return cross_entropy_fp32(recorder_, std::move(logits), true);
    }
    case Loss::huggingface_fused:
      return shifted_fused_loss(std::move(logits));
    case Loss::huggingface_4_46_fused: {
      const Tensor returned = logits;
      return shifted_fused_loss(std::move(logits));
    }
  }
  throw InternalError("a loss that no tape is made of");
}

Tensor Player::shifted_fused_loss(Tensor logits) {
  return fused_cross_entropy(recorder_, shifted_fp32(recorder_, std::move(logits), true));
}

/// Plays one of the pieces that `positions` are in.
Tensor Player::loss_of_piece(const Layer& layer, Tensor& piece) {
  if (layer.loss == Loss::vocab_parallel) return vocab_parallel_cross_entropy(recorder_, piece);
  if (is_librarys(layer.loss)) return fused_cross_entropy(recorder_, piece);
  if (layer.loss == Loss::compiled) return compiled_cross_entropy(recorder_, piece);
  return layer.loss == Loss::cross_entropy_fp32 ? cross_entropy_fp32(recorder_, std::move(piece))
                                                : cross_entropy(recorder_, piece);
}

Tensor Player::as_output(Tensor& logits) {
  outputs_.push_back(to(recorder_, logits, Type::float32));
  logits = undefined();
  return outputs_.back();
}

// Chunks of each sample's tokens: as many as torch.chunk makes.
Tensors Player::pieces_of(const Layer& product, const Tensor& x) {
  const std::int64_t tokens = x.sizes[1];
  const std::int64_t each = (tokens + product.loss_parts.chunks - 1) / product.loss_parts.chunks;
  std::vector<std::int64_t> sizes;
  for (std::int64_t done = 0; done < tokens; done += each)
    sizes.push_back(std::min(each, tokens - done));
  return split(recorder_, x, 1, sizes);
}

// torchtune's CEWithChunkedOutputLoss, litgpt's lm_head_chunk_size: all products first, then all
// losses.
Tensor Player::parted_loss(const Layer& layer) {
  const Layer& product = *std::exchange(parted_, nullptr);
  const Tensor x = std::move(values_.at(layer.input).front());
  if (product.loss_parts.fused) return fused_loss(product, x);
  if (product.loss_parts.at_once) return loss_at_once(layer, product, x);
  Tensors logits;
  {
    for (const Tensor& piece : pieces_of(product, x)) {
      logits.push_back(linears(product, piece).front());
      if (scales_logits_) logits.back() = scale(recorder_, logits.back());
      if (caps_logits_) logits.back() = capped(logits.back());
    }
  }
  const bool loops = layer.loss == Loss::lightning_loop;
  if (loops || layer.loss == Loss::lightning_fabric)
    for (Tensor& piece : logits) piece = as_output(piece);
  if (loops) outputs_made_ = recorder_.position();
  Tensor sum = undefined();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const Tensor one = loss_of_piece(layer, logits[i]);
    sum = sum.defined ? add(recorder_, sum, one) : one;
  }
  return sum;
}

namespace {

/// Tensors of the logits' size that a loss has beside them at once, forward or backward: of a plain
/// one log-softmax, the gradient that nll fills, and the logits' own.
std::int64_t tensors_beside(Loss loss) {
  if (is_librarys(loss)) return 0;
  return loss == Loss::compiled ? 1 : 3;
}

/// Whether those are of fp32: the logits are gone by then.
bool is_wide(Loss loss) {
  return loss != Loss::cross_entropy && loss != Loss::compiled && loss != Loss::fused_logits;
}

}  // namespace

// A leaf in the place of the hidden states: each chunk's gradient is written into that leaf's, each
// chunk's of the weight is added to the first one's, and then the hidden states go back.
Tensor Player::loss_at_once(const Layer& layer, const Layer& product, const Tensor& x) {
  Recorder& r = recorder_;
  const std::int64_t classes = product.channels.front();
  const Parameter which{product.tied ? 0 : product.unit,
                        product.tied ? 0 : product.parameter,
                        {classes, product.in.channels}};
  const Tensor weight = product_parameter(r, which);
  const Tensor input = lower(r, x);
  const Tensor to_input = r.take(input.sizes, input.type);
  const bool trained = weight.needs_gradient();
  const Tensor to_weight = trained ? r.take(weight.sizes, weight.type) : undefined();
  const std::int64_t chunks = product.loss_parts.chunks;
  const std::int64_t tokens = r.batch() * product.in.positions();
  const std::int64_t rows = (tokens + chunks - 1) / chunks;
  const bool wide = is_wide(layer.loss);
  Tensor loss = r.take(Sizes(), Type::float32);
  for (std::int64_t done = 0; done < tokens; done += rows) {
    const Sizes sizes = {std::min(rows, tokens - done), classes};
    Tensor logits = r.workspace(sizes, input.type);
    r.record("mm", {&input, &weight}, {&logits});
    if (wide) logits = undefined();
    {
      Tensors beside;
      for (std::int64_t i = 0; i < tensors_beside(layer.loss); ++i)
        beside.push_back(r.workspace(sizes, wide ? Type::float32 : input.type));
    }
    if (wide) logits = r.workspace(sizes, input.type);  // their gradient
    r.record("mm", {&logits, &weight}, {&to_input}, {.role = KernelRole::gradient});
    if (!trained) continue;
    const Tensor part = done > 0 ? r.workspace(weight.sizes, weight.type) : to_weight;
    r.record("mm", {&logits, &input}, {&part}, {.role = KernelRole::weight_gradient});
  }
  r.connect(loss, {input, weight}, [to_input, to_weight](const Gradients&) -> Gradients {
    Gradients results = {to_input, to_weight};
    results[1].shared = true;  // it is added to `.grad`
    return results;
  });
  return loss;
}

// Liger-Kernel's LigerFusedLinearCrossEntropyFunction.
Tensor Player::fused_loss(const Layer& product, const Tensor& x) {
  Recorder& r = recorder_;
  const std::int64_t classes = product.channels.front(), width = product.in.channels;
  const std::int64_t tokens = r.batch() * product.in.positions();
  const Parameter which{
      product.tied ? 0 : product.unit, product.tied ? 0 : product.parameter, {classes, width}};
  const Tensor weight = product_parameter(r, which);
  const Tensor input = lower(r, x);
  const std::int64_t parts = (classes + width - 1) / width;
  const auto rows = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>((tokens + parts - 1) / parts)));
  const Tensor to_input = r.take(input.sizes, input.type);
  const bool trained = weight.needs_gradient();
  const Tensor to_weight = trained ? r.take(weight.sizes, weight.type) : undefined();
  const Tensor losses = r.workspace(tokens, Type::float32);
  r.workspace({std::min(rows, tokens), classes}, input.type);
  Tensor loss = r.take(Sizes(), Type::float32);
  r.record("fused_linear_cross_entropy", {&input, &weight}, {&loss, &to_input, &to_weight});
  r.connect(loss, {input, weight}, [to_input, to_weight](const Gradients&) -> Gradients {
    Gradients results = {to_input, to_weight};
    results[1].shared = true;  // `.grad` is a tensor of backward: it is copied
    return results;
  });
  return loss;
}

}  // namespace rehearse::tape
