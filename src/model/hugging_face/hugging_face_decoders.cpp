// Decoders with rotary positions and dense feed-forward layers.
#include <algorithm>

#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {

TransformerShape read_llama(HuggingFaceConfig& config, bool tied) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.feed_forward_bias = config.flag_or("mlp_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", tied);
  return t;
}

namespace {

TransformerShape read_plain_llama(HuggingFaceConfig& config) { return read_llama(config); }

TransformerShape read_mistral(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t);
  return t;
}

TransformerShape read_qwen2(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.qkv_bias = true;
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t, config.flag_or("use_sliding_window", false));
  const std::int64_t full = config.count_or("max_window_layers", 28, 0);
  if (t.sliding.empty())
    for (std::int64_t i = 0; i < t.layers; ++i) t.sliding.push_back(i >= full);
  config.ignore({"use_mrope"});
  return t;
}

TransformerShape read_qwen3(HuggingFaceConfig& config) {
  TransformerShape t = read_qwen2(config);
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.head_norm = HeadNorm::each_head;
  t.head_width = config.count_or("head_dim", 128);
  return t;
}

TransformerShape read_gemma(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.head_width = config.count_or("head_dim", 256);
  t.activation = ActivationKind::gelu;
  t.embedding_scale = true;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", true);
  t.norm_form = NormForm::offset;
  config.ignore({"use_bidirectional_attention"});
  return t;
}

TransformerShape read_gemma2(HuggingFaceConfig& config) {
  TransformerShape t = read_gemma(config);
  t.norm_place = NormPlace::around;
  t.softcap = config.number_or("attn_logit_softcapping", 0);
  t.logits_softcap = config.number_or("final_logit_softcapping", 0);
  read_sliding(config, t);
  t.full_every = 2;
  config.ignore({"query_pre_attn_scalar", "sliding_window_size"});
  return t;
}

TransformerShape read_gemma3(HuggingFaceConfig& config) {
  TransformerShape t;
  t.layers = config.count("num_hidden_layers");
  t.hidden = config.count("hidden_size");
  t.feed_forward = config.count("intermediate_size");
  t.heads = config.count_or("num_attention_heads", 8);
  t.kv_heads = config.count_or("num_key_value_heads", 4);
  t.head_width = config.count_or("head_dim", 256);
  t.vocabulary = config.count_or("vocab_size", 262208);
  t.activation = read_activation(config, {"hidden_activation", "hidden_act"}, "gelu_pytorch_tanh");
  t.embedding_scale = true;
  t.norm_place = NormPlace::around;
  t.head_norm = HeadNorm::each_head;
  t.spelling.heads_first = true;
  t.norm_form = NormForm::offset;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", true);
  t.softcap = config.number_or("attn_logit_softcapping", 0);
  t.logits_softcap = config.number_or("final_logit_softcapping", 0);
  read_sliding(config, t);
  if (t.window == 0) t.window = 4096;
  t.full_every = config.count_or("sliding_window_pattern", 6);
  t.tokens = 4096;
  config.ignore({"max_position_embeddings", "query_pre_attn_scalar", "_sliding_window_pattern",
                 "use_bidirectional_attention"});
  return t;
}

/// Qwen's networks of images and text before `text_config` was written.
TransformerShape read_qwen2_vl(HuggingFaceConfig& config) {
  TransformerShape t = read_qwen2(config);
  config.ignore({"vision_config", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
                 "image_token_id", "video_token_id"});
  config.assume("the language model alone: the images' encoder is left out");
  return t;
}

TransformerShape read_phi3(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.fused_qkv = t.fused_gate = true;
  t.tied = config.flag_or("tie_word_embeddings", false);
  t.dropout = config.number_or("resid_pdrop", 0);
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  read_sliding(config, t);
  t.spelling.slices = t.partial_rotation = true;
  read_partial_rotation(config, t, 1);
  config.ignore({"embd_pdrop"});
  return t;
}

TransformerShape read_olmo2(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.norm_place = NormPlace::after;
  t.head_norm = HeadNorm::all_heads;
  t.spelling.wide_rotation = true;
  t.norm_form = NormForm::wide;
  return t;
}

TransformerShape read_gpt_neox(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.kv_heads = t.heads;  // whatever num_key_value_heads is
  t.feed_forward = config.count("intermediate_size");
  t.norm = NormKind::layer_norm;
  t.parallel_norms = config.flag_or("use_parallel_residual", true) ? 2 : 0;
  t.fused_qkv = t.spelling.by_head = t.partial_rotation = true;
  read_partial_rotation(config, t, config.number_or("rotary_pct", 0.25));
  t.gated = false;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", true);
  t.feed_forward_bias = true;
  t.dropout = config.number_or("hidden_dropout", 0);
  t.tied = config.flag_or("tie_word_embeddings", false);
  config.ignore({"rotary_emb_base"});
  return t;
}

TransformerShape read_falcon(HuggingFaceConfig& config) {
  TransformerShape t;
  t.layers = config.count_of({"num_hidden_layers", "n_layer"});
  t.hidden = config.count("hidden_size");
  t.heads = config.count_of({"num_attention_heads", "n_head"});
  t.head_width = t.hidden / t.heads;
  t.vocabulary = config.count("vocab_size");
  t.tokens = std::min<std::int64_t>(4096, config.count_or("max_position_embeddings", 2048));
  const bool alibi = config.flag_or("alibi", false);
  const bool grouped = config.flag_or("new_decoder_architecture", false);
  const bool one_key = config.flag_or("multi_query", true);
  const bool parallel = config.flag_or("parallel_attn", true);
  const std::int64_t groups =
      config.count_or("num_kv_heads", config.count_or("n_head_kv", t.heads));
  const std::int64_t norms = config.count_or("num_ln_in_parallel_attn", grouped ? 2 : 1);
  t.kv_heads = grouped ? groups : one_key ? 1 : t.heads;
  t.parallel_norms = grouped ? static_cast<int>(norms) : parallel ? 1 : 0;
  t.feed_forward = config.count_or("ffn_hidden_size", 4 * t.hidden);
  t.norm = NormKind::layer_norm;
  t.position = alibi ? PositionKind::alibi : PositionKind::rope;
  t.fused_qkv = true;
  t.spelling.indexes = grouped && !alibi;
  t.spelling.turns_weights = true;
  t.qkv_bias = t.output_bias = t.feed_forward_bias = config.flag_or("bias", false);
  t.activation = read_activation(config, {"activation", "hidden_act"}, "gelu");
  t.gated = false;
  t.dropout = config.number_or("hidden_dropout", 0);
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.ignore({"apply_residual_connection_post_layernorm", "ffn_intermediate_size"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& decoder_families() {
  static const std::vector<HuggingFaceFamily> kAll = {
      {"llama", read_plain_llama},  {"mistral", read_mistral}, {"qwen2", read_qwen2},
      {"qwen3", read_qwen3},        {"gemma", read_gemma},     {"gemma2", read_gemma2},
      {"gemma3_text", read_gemma3}, {"phi3", read_phi3},       {"olmo2", read_olmo2},
      {"gpt_neox", read_gpt_neox},  {"falcon", read_falcon},   {"qwen2_vl", read_qwen2_vl}};
  return kAll;
}

}  // namespace rehearse::inline model
