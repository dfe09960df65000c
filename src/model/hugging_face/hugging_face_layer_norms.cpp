// Decoders with rotary positions and layer norms.
#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {
namespace {

TransformerShape with_layer_norms(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.norm = NormKind::layer_norm;
  t.wide_softmax = true;
  config.ignore({"partial_rotary_factor"});
  return t;
}

TransformerShape read_starcoder2(HuggingFaceConfig& config) {
  TransformerShape t = with_layer_norms(config);
  t.gated = false;
  t.activation = read_activation(config, {"hidden_act"}, "gelu_pytorch_tanh");
  t.qkv_bias = t.output_bias = t.feed_forward_bias = config.flag_or("use_bias", true);
  t.dropout = config.number_or("residual_dropout", 0);
  t.tied = config.flag_or("tie_word_embeddings", true);
  read_sliding(config, t);
  config.ignore({"embedding_dropout", "norm_epsilon"});
  return t;
}

TransformerShape read_phi(HuggingFaceConfig& config) {
  TransformerShape t = with_layer_norms(config);
  t.parallel_norms = 1;
  t.partial_rotation = true;
  read_partial_rotation(config, t, 0.5);
  t.gated = false;
  t.activation = read_activation(config, {"hidden_act"}, "gelu_new");
  t.qkv_bias = t.output_bias = t.feed_forward_bias = t.head_bias = true;
  t.dropout = config.number_or("resid_pdrop", 0);
  config.require_value("qk_layernorm", false);
  config.require_value("tie_word_embeddings", false);
  return t;
}

TransformerShape read_stablelm(HuggingFaceConfig& config) {
  TransformerShape t = with_layer_norms(config);
  t.parallel_norms = config.flag_or("use_parallel_residual", false) ? 1 : 0;
  t.partial_rotation = true;
  read_partial_rotation(config, t, 0.25);
  t.qkv_bias = config.flag_or("use_qkv_bias", false);
  t.dropout = config.number_or("hidden_dropout", 0);
  t.embedding_dropout = t.attended_dropout = false;
  t.tied = config.flag_or("tie_word_embeddings", false);
  config.require_value("qk_layernorm", false);
  return t;
}

TransformerShape read_cohere(HuggingFaceConfig& config) {
  TransformerShape t = with_layer_norms(config);
  t.norm_form = NormForm::written_out;
  t.spelling.neighbours = t.spelling.widens_heads = t.spelling.residual_first = true;
  t.norm_bias = false;
  t.parallel_norms = 1;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", true);
  t.logits_scale = true;
  config.require_value("use_qk_norm", false);
  config.ignore({"logit_scale"});
  return t;
}

/// Layers that see all tokens do not rotate.
TransformerShape read_cohere2(HuggingFaceConfig& config) {
  TransformerShape t = read_cohere(config);
  t.full_every = config.count_or("sliding_window_pattern", 4);
  read_sliding(config, t);
  for (std::int64_t block = 0; block < t.layers; ++block) t.unrotated.push_back(!t.slides(block));
  config.ignore({"_sliding_window_pattern"});
  return t;
}

TransformerShape read_olmo(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.norm = NormKind::layer_norm;
  t.norm_form = NormForm::plain;
  t.norm_bias = false;
  t.spelling.wide_rotation = true;
  t.wide_softmax = true;
  config.require_null("clip_qkv");
  config.require_value("mlp_bias", false);
  return t;
}

TransformerShape read_nemotron(HuggingFaceConfig& config) {
  TransformerShape t = with_layer_norms(config);
  t.partial_rotation = true;
  t.norm_form = NormForm::offset;
  read_partial_rotation(config, t, 0.5);
  t.gated = false;
  t.activation = read_activation(config, {"hidden_act"}, "relu2");
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.feed_forward_bias = config.flag_or("mlp_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& layer_norm_families() {
  static const std::vector<HuggingFaceFamily> kAll = {
      {"starcoder2", read_starcoder2}, {"phi", read_phi},         {"stablelm", read_stablelm},
      {"cohere", read_cohere},         {"cohere2", read_cohere2}, {"olmo", read_olmo},
      {"nemotron", read_nemotron}};
  return kAll;
}

}  // namespace rehearse::inline model
