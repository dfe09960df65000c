// Any transformer, from its dimensions: its stacks, and what they stand in.
#include <fmt/format.h>

#include <algorithm>

#include "model/architectures/transformer_build.hpp"

namespace rehearse::inline model {
namespace {

void keep_ends_wide(TransformerBuild& b, std::int64_t block, std::int64_t blocks) {
  if (block < b.shape.wide_at_start || block >= blocks - b.shape.wide_at_end)
    b.layers.keep_unit_wide();
}

void append_stack(TransformerBuild& b, const std::string& name) {
  for (std::int64_t block = 0; block < b.t.layers; ++block) {
    b.layers.unit(fmt::format("{}.{}", name, block));
    append_block(b, block);
    if (b.t.transposed_weights) b.layers.transpose_unit();
    if (b.t.spelling.turns_weights) b.layers.turn_unit();
    keep_ends_wide(b, block, b.t.layers);
  }
}

/// Encoder, then decoder: each of the decoder's blocks also attends to what the encoder has made.
void append_encoder(TransformerBuild& b) {
  b.causal = false;
  for (std::int64_t block = 0; block < b.t.encoder_layers; ++block) {
    b.layers.unit(fmt::format("encoder.{}", block));
    if (block == 0 && b.t.position == PositionKind::relative)
      b.layers.parameter(b.t.buckets * b.t.heads, ParameterShare::sharded);
    append_block(b, block);
    keep_ends_wide(b, block, b.t.encoder_layers);
  }
  append_norm(b);
  if (b.drops()) b.layers.dropout();
}

void append_decoder(TransformerBuild& b) {
  const Activation encoded = b.layers.current();
  b.causal = true;
  b.layers.unit("decoder.embeddings");
  b.layers.resume(token_input(b.tokens, b.t.hidden));
  b.layers.shared_embedding(b.t.vocabulary);
  if (b.drops()) b.layers.dropout();
  for (std::int64_t block = 0; block < b.t.layers; ++block) {
    b.layers.unit(fmt::format("decoder.{}", block));
    if (block == 0 && b.t.position == PositionKind::relative)
      b.layers.parameter(b.t.buckets * b.t.heads, ParameterShare::sharded);
    append_residual(b, [&] { append_attention(b, block); });
    append_residual(b, [&] { append_cross_attention(b, encoded, block); });
    append_residual(b, [&] { append_feed_forward(b, block); });
    keep_ends_wide(b, block, b.t.layers);
  }
}

Model build_tokens(const TransformerShape& t, const ModelShape& asked,
                   const ModelParallel& parallel) {
  const ModelShape shape =
      sequence_shape(asked, {.name = t.name, .tokens = t.tokens, .most = t.most_tokens});
  const std::int64_t width = t.embedding_width > 0 ? t.embedding_width : t.hidden;
  const bool pair = t.encoder_layers > 0;
  const std::int64_t tokens = shape.sequence / parallel.context;
  TransformerBuild b{t, shape, Layers(token_input(tokens, width), parallel), parallel};
  b.tokens = pair && t.target_tokens > 0 ? t.target_tokens : tokens;
  b.causal = t.causal();
  b.layers.unit("embeddings");
  append_token_embeddings(b);
  if (pair) {
    append_encoder(b);
    append_decoder(b);
  } else {
    append_stack(b, t.unit_prefix);
  }
  const Activation trunk = b.layers.current();
  const std::vector<Activation> states = append_predictions(b);
  b.layers.resume(trunk);
  append_head(b);
  append_further_logits(b, states);
  Model model = token_model(t.name, shape, t.source, b.layers);
  model.input_elements = static_cast<double>(tokens);
  model.tokens_per_sample = tokens;
  return model;
}

Model build_patches(const TransformerShape& t, const ModelShape& asked) {
  ModelShape shape = image_shape(asked, {.name = t.name, .side = t.image, .smallest = t.patch});
  if (asked.classes == 0) shape.classes = t.classes;
  TransformerBuild b{t, shape, Layers(image_input(shape))};
  b.causal = false;
  b.layers.unit("embeddings");
  b.layers.parameter(t.hidden);
  const std::int64_t side = shape.image / t.patch;
  b.layers.parameter((side * side + 1) * t.hidden);
  b.layers.convolution({.channels = t.hidden, .kernel = t.patch, .stride = t.patch, .bias = true});
  b.layers.class_token();
  if (b.drops()) b.layers.dropout();
  append_stack(b, t.unit_prefix);
  append_head(b);
  return image_model(t.name, shape, t.source, b.layers);
}

/// No profile of the whole model speaks for a share.
void append_variant(Model& model, const ModelParallel& parallel) {
  if (!model.variant.empty()) model.variant += ", ";
  model.variant += fmt::format("tensor {}, context {}, expert {}", parallel.tensor,
                               parallel.context, parallel.expert);
}

bool caps_scores(AttentionKernel kernel) {
  return kernel == AttentionKernel::flash2 || kernel == AttentionKernel::flash3;
}

bool takes_slopes(AttentionKernel kernel) {
  return kernel == AttentionKernel::flash2 || kernel == AttentionKernel::triton;
}

}  // namespace

// flash-attn takes slopes from 2.4 on and caps scores from 2.6 on; MPT's Triton kernel takes a
// bias. TransformerEngine, which Megatron's layouts have as `sdpa`, takes sinks and slopes.
std::string eager_because(const TransformerShape& t, const ModelShape& shape) {
  if (!shape.flash_attention) return "";
  const bool sdpa = shape.attention_kernel == AttentionKernel::sdpa;
  const std::string who = sdpa ? "PyTorch's sdpa" : to_string(shape.attention_kernel);
  if (t.softcap != 0 && !caps_scores(shape.attention_kernel))
    return fmt::format("as {} caps no scores", who);
  if (t.sinks && !shape.library_attention) return fmt::format("as {} has no sinks", who);
  const bool slopes = sdpa ? shape.library_attention : takes_slopes(shape.attention_kernel);
  if (t.position == PositionKind::alibi && !slopes)
    return fmt::format("as {} has no slopes for ALiBi", who);
  if (t.position == PositionKind::relative && !sdpa)
    return fmt::format("as {} gives the scores' biases no gradient", who);
  return "";
}

bool fuses_attention(const TransformerShape& t, const ModelShape& shape) {
  return shape.flash_attention && eager_because(t, shape).empty();
}

bool Experts::at(std::int64_t block) const {
  return block >= first_dense && (block + 1) % interval == 0 &&
         std::ranges::find(dense_blocks, block) == dense_blocks.end();
}

bool TransformerShape::slides(std::int64_t block) const {
  if (window == 0) return false;
  if (block < static_cast<std::int64_t>(sliding.size()))
    return sliding[static_cast<std::size_t>(block)];
  return full_every == 0 || (block + 1) % full_every != 0;
}

bool TransformerShape::rotates(std::int64_t block) const {
  const auto index = static_cast<std::size_t>(block);
  return position == PositionKind::rope && !(index < unrotated.size() && unrotated[index]);
}

BlockParts TransformerShape::parts_of(std::int64_t block) const {
  if (parts.empty() || block >= layers) return {};
  return parts[static_cast<std::size_t>(block) % parts.size()];
}

bool TransformerShape::has_experts(std::int64_t block) const {
  return experts && parts_of(block).feed_forward && experts->at(block);
}

std::vector<MixerPtr> TransformerShape::mixers() const {
  std::vector<MixerPtr> all;
  for (const BlockParts& one : parts)
    if (one.mixer && std::ranges::find(all, one.mixer) == all.end()) all.push_back(one.mixer);
  return all;
}

std::string set_hybrid_pattern(const std::string& letters, const MixerPtr& mamba,
                               TransformerShape& t) {
  t.parts.clear();
  if (t.experts) t.experts->dense_blocks.clear();
  for (const char letter : letters) {
    const auto block = static_cast<std::int64_t>(t.parts.size());
    switch (letter) {
      case 'M':
        if (!mamba) return "layers of state spaces without mamba, which gives their heads";
        t.parts.push_back({.mixer = mamba, .feed_forward = false});
        break;
      case '*':
        t.parts.push_back({.feed_forward = false});
        break;
      case '-':
        if (t.experts) t.experts->dense_blocks.push_back(block);
        [[fallthrough]];
      case 'E':
        t.parts.push_back({.attention = false});
        break;
      default:
        return fmt::format("\"{}\" is no part of a block; M, *, - and E are", letter);
    }
  }
  if (letters.find('E') == std::string::npos) t.experts.reset();
  return t.parts.empty() ? "no part of a block; M, *, - and E are" : "";
}

namespace {

std::string contradiction_of_parts(const TransformerShape& t) {
  for (const MixerPtr& mixer : t.mixers())
    if (std::string wrong = mixer->contradiction(); !wrong.empty()) return wrong;
  return "";
}

}  // namespace

Model transformer_model(const TransformerShape& t, const ModelShape& shape) {
  return share_of(t, shape, {});
}

Model share_of(const TransformerShape& whole, const ModelShape& shape,
               const ModelParallel& parallel) {
  const TransformerShape t = share_of(whole, parallel);
  Model model = t.image > 0 ? build_patches(t, shape) : build_tokens(t, shape, parallel);
  model.family = t.family;
  model.layers = t.layers + t.encoder_layers;
  for (Unit& unit : model.units) {
    order_exchanges(unit.exchanges);
    if (!unit.traits.empty()) unit.traits.resize(unit.tensors.size());
  }
  if (!parallel.is_whole()) append_variant(model, parallel);
  return model;
}

std::string contradiction(const TransformerShape& t) {
  if (t.kv_heads > 0 && t.heads % t.kv_heads != 0)
    return fmt::format("{} attention heads are no multiple of {} key-value heads", t.heads,
                       t.kv_heads);
  if (t.experts && t.experts->active > t.experts->count)
    return fmt::format("{} active experts of {}", t.experts->active, t.experts->count);
  if (t.position == PositionKind::rope && !t.latent && t.head_width % 2 != 0)
    return fmt::format("rotary positions turn pairs: heads of {} channels have none for the last",
                       t.head_width);
  if (t.experts && t.experts->biases && t.experts->latent > 0)
    return "experts with biases pass all of the network's channels: latent_size is not for them";
  if (std::string wrong = contradiction_of_parts(t); !wrong.empty()) return wrong;
  if (t.image > 0 && t.image % t.patch != 0)
    return fmt::format("patches of {} pixels do not divide an image of {}", t.patch, t.image);
  return "";
}

}  // namespace rehearse::inline model
