// Learned positions and ALiBi, encoders, encoder-decoders and vision transformers.
#include <algorithm>

#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {
namespace {

/// Everything has a bias, layer norms have two parameters, the feed-forward layer is not gated.
TransformerShape with_biases() {
  TransformerShape t;
  t.norm = NormKind::layer_norm;
  t.gated = false;
  t.qkv_bias = t.output_bias = t.feed_forward_bias = true;
  return t;
}

void set_heads(TransformerShape& t, std::int64_t heads) {
  t.heads = t.kv_heads = heads;
  t.head_width = std::max<std::int64_t>(1, t.hidden / heads);
}

void set_positions(TransformerShape& t, std::int64_t rows, std::int64_t offset) {
  t.position = PositionKind::learned;
  t.position_rows = rows;
  t.most_tokens = t.tokens = rows - offset;
}

/// GPT-2's names.
TransformerShape read_gpt(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.unit_prefix = "h";
  t.layers = config.count("n_layer");
  t.hidden = config.count("n_embd");
  set_heads(t, config.count("n_head"));
  t.feed_forward = config.count_or("n_inner", 4 * t.hidden);
  t.vocabulary = config.count("vocab_size");
  t.activation = read_activation(config, {"activation_function"}, "gelu_new");
  return t;
}

TransformerShape read_gpt2(HuggingFaceConfig& config) {
  TransformerShape t = read_gpt(config);
  set_positions(t, config.count_or("n_positions", 1024), 0);
  t.fused_qkv = t.transposed_weights = true;
  t.dropout = config.number_or("resid_pdrop", 0.1);
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.require_value("add_cross_attention", false);
  return t;
}

TransformerShape read_opt(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.layers = config.count("num_hidden_layers");
  t.hidden = config.count("hidden_size");
  set_heads(t, config.count("num_attention_heads"));
  t.feed_forward = config.count("ffn_dim");
  t.vocabulary = config.count("vocab_size");
  set_positions(t, config.count("max_position_embeddings") + 2, 2);
  t.embedding_width = config.count_or("word_embed_proj_dim", t.hidden);
  const bool before = config.flag_or("do_layer_norm_before", true);
  t.norm_place = before ? NormPlace::before : NormPlace::after_sum;
  t.final_norm = before && !config.flag_or("_remove_final_layer_norm", false);
  t.qkv_bias = t.output_bias = t.feed_forward_bias = config.flag_or("enable_bias", true);
  t.activation = read_activation(config, {"activation_function"}, "relu");
  t.dropout = config.number_or("dropout", 0.1);
  t.tied = config.flag_or("tie_word_embeddings", true);
  t.own_positions = t.spelling.counted = t.spelling.scales_queries = t.spelling.flat = true;
  config.require_value("layer_norm_elementwise_affine", true);
  config.ignore({"init_std", "layerdrop", "activation_dropout"});
  return t;
}

TransformerShape read_bloom(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.unit_prefix = "h";
  t.layers = config.count_of({"n_layer", "num_hidden_layers"});
  t.hidden = config.count_of({"hidden_size", "n_embed"});
  set_heads(t, config.count_of({"n_head", "num_attention_heads"}));
  t.feed_forward = 4 * t.hidden;
  t.vocabulary = config.count("vocab_size");
  t.tokens = 2048;
  t.position = PositionKind::alibi;
  t.embedding_norm = true;
  t.fused_qkv = t.spelling.selects = true;
  t.activation = ActivationKind::gelu_written;
  t.dropout = config.number_or("hidden_dropout", 0);
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.ignore({"apply_residual_connection_post_layernorm", "attention_softmax_in_fp32",
                 "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi", "seq_length",
                 "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "unk_token_id",
                 "n_inner"});
  return t;
}

TransformerShape read_mpt(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.unit_prefix = "h";
  t.layers = config.count("n_layers");
  t.hidden = config.count("d_model");
  set_heads(t, config.count("n_heads"));
  t.feed_forward = config.count_or("expansion_ratio", 4) * t.hidden;
  t.vocabulary = config.count("vocab_size");
  t.tokens = config.count_or("max_seq_len", 2048);
  t.position = PositionKind::alibi;
  t.fused_qkv = true;
  t.qkv_bias = t.output_bias = t.feed_forward_bias = t.norm_bias = false;
  t.activation = ActivationKind::gelu;
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.require_value("no_bias", true);
  if (const std::optional<Value> attention = config.field("attn_config")) {
    std::vector<std::string> none;
    HuggingFaceConfig inner(attention->as_map(), none);
    inner.require_value("alibi", true);
    inner.require_value("qk_ln", false);
  }
  config.ignore({"emb_pdrop", "resid_pdrop", "embedding_fraction", "init_config", "init_device",
                 "learned_pos_emb", "logit_scale", "norm_type", "verbose", "layer_norm_epsilon"});
  return t;
}

TransformerShape read_encoder(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.unit_prefix = "layer";
  t.layers = config.count("num_hidden_layers");
  t.hidden = config.count("hidden_size");
  set_heads(t, config.count("num_attention_heads"));
  t.feed_forward = config.count("intermediate_size");
  t.activation = read_activation(config, {"hidden_act"}, "gelu");
  t.dropout = config.number_or("hidden_dropout_prob", 0.1);
  return t;
}

void set_masked(HuggingFaceConfig& config, TransformerShape& t) {
  t.embedding_norm = true;
  t.norm_place = NormPlace::after_sum;
  t.final_norm = false;
  t.head = HeadKind::masked;
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.assume("the head of masked tokens, every token's logits (BertForMaskedLM)");
}

/// With the head for masked tokens.
TransformerShape read_bert(HuggingFaceConfig& config) {
  TransformerShape t = read_encoder(config);
  t.vocabulary = config.count("vocab_size");
  set_positions(t, config.count_or("max_position_embeddings", 512), 0);
  t.token_types = config.count_or("type_vocab_size", 2);
  set_masked(config, t);
  config.require_value("add_cross_attention", false);
  if (const std::optional<Value> kind = config.field("position_embedding_type"))
    kind->as_choice({"absolute"});
  config.ignore({"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                 "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  return t;
}

/// No table of segments, and no dropout behind attention.
TransformerShape read_distilbert(HuggingFaceConfig& config) {
  TransformerShape t = with_biases();
  t.unit_prefix = "layer";
  t.layers = config.count_or("n_layers", 6);
  t.hidden = config.count_or("dim", 768);
  set_heads(t, config.count_or("n_heads", 12));
  t.feed_forward = config.count_or("hidden_dim", 4 * t.hidden);
  t.vocabulary = config.count("vocab_size");
  set_positions(t, config.count_or("max_position_embeddings", 512), 0);
  t.activation = read_activation(config, {"activation"}, "gelu");
  t.dropout = config.number_or("dropout", 0.1);
  t.attended_dropout = false;
  set_masked(config, t);
  config.require_value("sinusoidal_pos_embds", false);
  config.ignore({"qa_dropout", "seq_classif_dropout", "tie_weights_"});
  return t;
}

TransformerShape read_roberta(HuggingFaceConfig& config) {
  TransformerShape t = read_bert(config);
  t.own_positions = true;
  t.most_tokens = t.tokens = t.position_rows - 2;
  return t;
}

/// Rotated positions; two of three layers see their neighbours alone.
TransformerShape read_modernbert(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.norm = NormKind::layer_norm;
  t.norm_bias = config.flag_or("norm_bias", false);
  t.activation = read_activation(config, {"hidden_activation"}, "gelu");
  t.fused_qkv = t.fused_gate = true;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.feed_forward_bias = config.flag_or("mlp_bias", false);
  t.embedding_norm = true;
  t.first_norm = false;
  t.window = config.count_or("local_attention", 128);
  const std::int64_t every = config.count_or("global_attn_every_n_layers", 3);
  read_sliding(config, t, false);
  for (std::int64_t block = 0; t.sliding.empty() && block < t.layers; ++block)
    t.sliding.push_back(block % every != 0);
  for (const char* name : {"mlp_dropout", "embedding_dropout"})
    if (config.number_or(name, 0) != 0)
      config.map().at_key(name).fail("only networks without dropout are modelled");
  t.head = HeadKind::masked;
  t.masked_bias = config.flag_or("classifier_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.require_value("decoder_bias", true);
  config.require_value("sparse_prediction", false);
  config.assume("the head of masked tokens, every token's logits (ModernBertForMaskedLM)");
  config.ignore({"initializer_cutoff_factor", "cls_token_id", "classifier_pooling",
                 "classifier_activation", "deterministic_flash_attn", "sparse_pred_ignore_index",
                 "global_rope_theta", "local_rope_theta", "position_embedding_type",
                 "reference_compile", "repad_logits_with_grad"});
  return t;
}

/// StarCoder: one key and value for all heads.
TransformerShape read_gpt_bigcode(HuggingFaceConfig& config) {
  TransformerShape t = read_gpt2(config);
  t.transposed_weights = false;
  if (config.flag_or("multi_query", true)) {
    t.kv_heads = 1;
    t.spelling.single_key = true;
  }
  config.check_count("num_key_value_heads", t.kv_heads);
  t.activation = read_activation(config, {"activation_function"}, "gelu_pytorch_tanh");
  config.ignore({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
                 "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
                 "validate_runner_input"});
  return t;
}

TransformerShape read_gptj(HuggingFaceConfig& config) {
  TransformerShape t = read_gpt(config);
  t.tokens = config.count_or("n_positions", 2048);
  t.partial_rotation = true;
  t.shared_rotary = false;
  t.parallel_norms = 1;
  t.qkv_bias = t.output_bias = false;
  t.head_bias = true;
  t.wide_softmax = true;
  t.dropout = config.number_or("resid_pdrop", 0);
  config.require_value("tie_word_embeddings", false);
  config.ignore({"rotary", "rotary_dim", "gradient_checkpointing"});
  return t;
}

/// `usual`: the family's feed_forward_proj.
TransformerShape t5_of(HuggingFaceConfig& config, const std::string& usual) {
  TransformerShape t;
  t.encoder_layers = config.count("num_layers");
  t.layers = config.count_or("num_decoder_layers", t.encoder_layers);
  t.hidden = config.count("d_model");
  t.heads = t.kv_heads = config.count("num_heads");
  t.head_width = config.count("d_kv");
  t.feed_forward = config.count("d_ff");
  t.vocabulary = config.count("vocab_size");
  t.tokens = 512;
  t.position = PositionKind::relative;
  t.norm_form = NormForm::of_input;
  t.buckets = config.count_or("relative_attention_num_buckets", 32);
  const std::string kind = config.text_or("feed_forward_proj", usual);
  t.gated = kind.starts_with("gated-");
  t.activation = kind.ends_with("relu")   ? ActivationKind::relu
                 : kind.ends_with("silu") ? ActivationKind::silu
                                          : ActivationKind::gelu_new;
  t.dropout = config.number_or("dropout_rate", 0.1);
  t.tied = config.flag_or("tie_word_embeddings", true);
  config.ignore({"n_positions", "relative_attention_max_distance", "dense_act_fn", "is_gated_act",
                 "output_past", "scale_decoder_outputs"});
  return t;
}

TransformerShape read_t5(HuggingFaceConfig& config) { return t5_of(config, "relu"); }

/// Tied whatever config.json says, as transformers reads it.
TransformerShape read_mt5(HuggingFaceConfig& config) {
  TransformerShape t = t5_of(config, "gated-gelu");
  t.tied = true;
  return t;
}

std::int64_t labels(HuggingFaceConfig& config) {
  if (const std::optional<Value> names = config.field("id2label"))
    return static_cast<std::int64_t>(names->as_map().keys().size());
  return config.count_or("num_labels", 2);
}

TransformerShape read_vit(HuggingFaceConfig& config) {
  TransformerShape t = read_encoder(config);
  t.position = PositionKind::learned;
  t.image = config.count_or("image_size", 224);
  t.patch = config.count_or("patch_size", 16);
  t.classes = labels(config);
  t.qkv_bias = config.flag_or("qkv_bias", true);
  t.dropout = config.number_or("hidden_dropout_prob", 0);
  t.head = HeadKind::classes;
  if (const std::optional<Value> channels = config.field("num_channels");
      channels && channels->as_integer(1, 1000) != 3)
    channels->fail("only images of 3 channels are modelled");
  config.ignore({"encoder_stride", "pooler_act", "pooler_output_size"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& other_families() {
  static const std::vector<HuggingFaceFamily> kAll = {{"gpt2", read_gpt2},
                                                      {"opt", read_opt},
                                                      {"bloom", read_bloom},
                                                      {"mpt", read_mpt},
                                                      {"bert", read_bert},
                                                      {"roberta", read_roberta},
                                                      {"distilbert", read_distilbert},
                                                      {"modernbert", read_modernbert},
                                                      {"gpt_bigcode", read_gpt_bigcode},
                                                      {"gptj", read_gptj},
                                                      {"t5", read_t5},
                                                      {"mt5", read_mt5},
                                                      {"vit", read_vit}};
  return kAll;
}

}  // namespace rehearse::inline model
