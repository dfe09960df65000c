// Decoders whose blocks mix tokens in several ways: linear attention or state spaces beside
// attention.
#include <fmt/format.h>

#include <map>

#include "model/hugging_face/hugging_face_config.hpp"
#include "model/mixers.hpp"

namespace rehearse::inline model {
namespace {

/// `layer_types`, or every so many layers full attention.
void read_linear_layers(HuggingFaceConfig& config, TransformerShape& t) {
  const std::int64_t every = config.count_or("full_attention_interval", 4);
  const MixerPtr linear =
      mixer(LinearAttention{.key_heads = config.count_or("linear_num_key_heads", 16),
                            .key_width = config.count_or("linear_key_head_dim", 128),
                            .value_heads = config.count_or("linear_num_value_heads", 32),
                            .value_width = config.count_or("linear_value_head_dim", 128),
                            .kernel = config.count_or("linear_conv_kernel_dim", 4)});
  const auto add = [&](bool full) { t.parts.push_back({full ? nullptr : linear}); };
  for (const bool full : by_layer(config, "layer_types", t, {"full_attention", "linear_attention"}))
    add(full);
  if (!t.parts.empty()) return;
  for (std::int64_t block = 1; block <= every; ++block) add(block == every);
}

/// Qwen 3 Next and Qwen 3.5: gated attention, and experts with a gated shared one.
TransformerShape read_gated(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.head_width = config.count_or("head_dim", 256);
  t.kv_heads = config.count_or("num_key_value_heads", 2);
  t.head_norm = HeadNorm::each_head;
  t.attention_gate = true;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_linear_layers(config, t);
  config.ignore({"partial_rotary_factor", "mamba_ssm_dtype", "mlp_only_layers", "attn_output_gate",
                 "output_gate_type", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
  return t;
}

TransformerShape read_gated_experts(HuggingFaceConfig& config) {
  TransformerShape t = read_gated(config);
  t.experts = read_qwen_experts(config, 512, 10, true);
  t.experts->router.views = Router::Views::throughout;
  t.feed_forward = config.count_or("intermediate_size", t.experts->width);
  t.experts->shared_width = config.count_or("shared_expert_intermediate_size", t.experts->width);
  t.experts->shared_gate = true;
  return t;
}

TransformerShape read_gated_dense(HuggingFaceConfig& config) {
  TransformerShape t = read_gated(config);
  t.feed_forward = config.count("intermediate_size");
  return t;
}

/// Of an image and text network; its images' encoder is left out, and said so.
template <TransformerShape (*read)(HuggingFaceConfig&)>
TransformerShape read_text_of(HuggingFaceConfig& config) {
  std::vector<std::string> none;
  HuggingFaceConfig text(config.map().require("text_config").as_map(), none);
  TransformerShape t = read(text);
  text.ignore({"model_type", "rope_parameters", "rms_norm_eps", "initializer_range", "torch_dtype",
               "dtype", "attention_dropout", "use_cache", "bos_token_id", "eos_token_id",
               "pad_token_id", "router_aux_loss_coef", "output_router_logits"});
  text.finish("text_config");
  config.ignore({"text_config", "vision_config", "image_token_id", "video_token_id",
                 "vision_start_token_id", "vision_end_token_id"});
  config.assume("text_config alone: the images' encoder is left out");
  return t;
}

/// Blocks of `linear_attn_config`, which count from 1, or transformers' own list of all.
void read_kimi_layers(HuggingFaceConfig& config, const MixerPtr& linear, std::optional<Map>& own,
                      TransformerShape& t) {
  const auto add = [&](bool full) { t.parts.push_back({full ? nullptr : linear}); };
  for (const bool full : by_layer(config, "layer_types", t, {"full_attention", "linear_attention"}))
    add(full);
  if (!t.parts.empty()) return;
  std::vector<bool> attends(static_cast<std::size_t>(t.layers), false);
  if (own && own->has("full_attn_layers")) {
    for (const Value& one : own->require("full_attn_layers").as_list())
      attends[static_cast<std::size_t>(one.as_integer(1, t.layers) - 1)] = true;
    const Value others = own->require("kda_layers");
    std::int64_t left = std::ranges::count(attends, false);
    for (const Value& one : others.as_list()) {
      if (attends[static_cast<std::size_t>(one.as_integer(1, t.layers) - 1)])
        one.fail("full_attn_layers has this layer, too");
      --left;
    }
    if (left != 0)
      others.fail(fmt::format("{} of {} layers stand in neither list", left, t.layers));
  } else {
    for (std::size_t block = 4; block < attends.size(); block += 4) attends[block] = true;
  }
  for (const bool full : attends) add(full);
}

/// Kimi Linear: latent attention without rotation, and experts as DeepSeek-V3's.
TransformerShape read_kimi_linear(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.position = PositionKind::none;
  t.latent = LatentAttention{.query_rank = config.count_or("q_lora_rank", 0),
                             .key_rank = config.count_or("kv_lora_rank", 512),
                             .plain_width = config.count_or("qk_nope_head_dim", 128),
                             .rotated_width = config.count_or("qk_rope_head_dim", 64),
                             .value_width = config.count_or("v_head_dim", 128)};
  std::optional<Map> own;
  if (const std::optional<Value> said = config.field("linear_attn_config")) own = said->as_map();
  const auto size = [&](const char* name, const char* there, std::int64_t fallback) {
    if (own && own->has(there)) fallback = own->require(there).as_integer(1, kMostDimension);
    return config.count_or(name, fallback);
  };
  const MixerPtr linear = mixer(
      KimiDeltaAttention{.heads = size("linear_num_heads", "num_heads", 32),
                         .width = size("linear_head_dim", "head_dim", 128),
                         .kernel = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4)});
  read_kimi_layers(config, linear, own, t);
  const auto count = [&](const char* name, const char* other, std::int64_t fallback) {
    return config.count_or(name, config.count_or(other, fallback));
  };
  Experts experts{.count = count("num_local_experts", "num_experts", 256),
                  .active = count("num_experts_per_tok", "num_experts_per_token", 8),
                  .width = config.count_or("moe_intermediate_size", 1024),
                  .router = read_grouped_router(config, true)};
  experts.router.groups = count("n_group", "num_expert_group", 1);
  experts.shared_width = count("n_shared_experts", "num_shared_experts", 1) * experts.width;
  const std::vector<bool> dense = by_layer(config, "mlp_layer_types", t, {"dense", "sparse"});
  const std::int64_t first = config.count_or("first_k_dense_replace", 1, 0);
  experts.first_dense = dense.empty() ? first : 0;
  for (std::size_t block = 0; block < dense.size(); ++block)
    if (dense[block]) experts.dense_blocks.push_back(static_cast<std::int64_t>(block));
  t.experts = experts;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  config.ignore({"moe_renormalize", "moe_router_activation_func", "use_grouped_topk",
                 "moe_layer_freq", "mla_use_nope", "model_max_length", "rope_theta", "rope_scaling",
                 "num_nextn_predict_layers", "head_dim", "qk_head_dim"});
  return t;
}

/// A letter for each block, as Megatron-LM's hybrid_override_pattern; or a name.
void read_pattern(HuggingFaceConfig& config, const MixerPtr& mamba, TransformerShape& t) {
  if (const std::optional<Value> pattern = config.field("hybrid_override_pattern")) {
    const std::string wrong = set_hybrid_pattern(pattern->as_string(), mamba, t);
    if (!wrong.empty()) pattern->fail(wrong);
  } else {
    static const std::map<std::string, char> kLetters = {
        {"mamba", 'M'},     {"linear_attention", 'M'},
        {"attention", '*'}, {"full_attention", '*'},
        {"mlp", '-'},       {"moe", 'E'}};
    std::string letters;
    for (const Value& one : config.map().require("layers_block_type").as_list())
      letters += kLetters.at(one.as_choice(
          {"mamba", "linear_attention", "attention", "full_attention", "mlp", "moe"}));
    set_hybrid_pattern(letters, mamba, t);
  }
  config.ignore({"layers_block_type", "hybrid_override_pattern"});
  const auto blocks = static_cast<std::int64_t>(t.parts.size());
  if (t.layers == 0) t.layers = blocks;
  if (blocks != t.layers)
    config.map().where().fail(fmt::format("{} parts of {} layers", blocks, t.layers));
}

/// Granite 4: state spaces and attention, and behind both a shared expert, beside others or alone.
TransformerShape read_granite_hybrid(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  read_factors(config, t);
  t.position = config.text_or("position_embedding_type", "nope") == "rope" ? PositionKind::rope
                                                                           : PositionKind::none;
  const std::int64_t heads = config.count_or("mamba_n_heads", 128);
  const std::int64_t width = config.count_or("mamba_expand", 2) * t.hidden / heads;
  const bool said = config.field("mamba_d_head") && config.text_or("mamba_d_head", "") != "auto";
  const MixerPtr mamba = mixer(StateSpace{.heads = heads,
                                          .head_width = said ? config.count("mamba_d_head") : width,
                                          .state = config.count_or("mamba_d_state", 256),
                                          .groups = config.count_or("mamba_n_groups", 1),
                                          .kernel = config.count_or("mamba_d_conv", 4),
                                          .chunk = config.count_or("mamba_chunk_size", 256)});
  const bool renamed = config.field("layer_types").has_value();
  for (const Value& one :
       config.map().require(renamed ? "layer_types" : "layers_block_type").as_list()) {
    const std::string kind =
        one.as_choice({"mamba", "linear_attention", "attention", "full_attention"});
    const bool attends = kind == "attention" || kind == "full_attention";
    t.parts.push_back({attends ? nullptr : mamba});
  }
  const std::int64_t shared = config.count_or("shared_intermediate_size", 1024);
  const std::int64_t count = config.count_or("num_local_experts", 8, 0);
  if (count > 0)
    t.experts = Experts{.count = count,
                        .active = config.count_or("num_experts_per_tok", 2),
                        .width = t.feed_forward,
                        .shared_width = shared};
  t.feed_forward = shared;
  t.fused_gate = true;
  config.require_value("mamba_proj_bias", false);
  config.require_value("mamba_conv_bias", true);
  config.ignore({"layers_block_type", "num_experts_per_tok", "time_step_limit", "init_method",
                 "normalization_function", "rope_theta"});
  return t;
}

/// LFM2: short convolutions beside attention whose heads have norms.
TransformerShape read_lfm2(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.head_norm = HeadNorm::each_head;
  t.feed_forward =
      config.count(config.field("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
  if (config.flag_or("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = config.count_or("block_multiple_of", 256);
    const auto wide = static_cast<std::int64_t>(config.number_or("block_ffn_dim_multiplier", 1) *
                                                static_cast<double>(2 * t.feed_forward / 3));
    t.feed_forward = (wide + multiple - 1) / multiple * multiple;
  }
  const MixerPtr convolution = mixer(ShortConvolution{.channels = t.hidden,
                                                      .kernel = config.count_or("conv_L_cache", 3),
                                                      .bias = config.flag_or("conv_bias", false)});
  const auto add = [&](bool full) { t.parts.push_back({full ? nullptr : convolution}); };
  for (const bool full : by_layer(config, "layer_types", t, {"full_attention", "conv"})) add(full);
  if (t.parts.empty()) {
    std::vector<bool> attends(static_cast<std::size_t>(t.layers), false);
    for (const Value& one : config.map().require("full_attn_idxs").as_list())
      attends.at(static_cast<std::size_t>(one.as_integer(0, t.layers - 1))) = true;
    for (const bool full : attends) add(full);
  }
  t.tied =
      config.flag_or(config.field("tie_embedding") ? "tie_embedding" : "tie_word_embeddings", true);
  config.ignore({"full_attn_idxs",
                 "block_dim",
                 "block_mlp_init_scale",
                 "block_norm_eps",
                 "block_out_init_scale",
                 "block_use_swiglu",
                 "block_use_xavier_init",
                 "conv_dim",
                 "conv_dim_out",
                 "conv_use_xavier_init",
                 "block_ff_dim",
                 "intermediate_size",
                 "block_multiple_of",
                 "block_ffn_dim_multiplier",
                 "norm_eps",
                 "theta",
                 "num_heads",
                 "tie_embedding",
                 "tie_word_embeddings",
                 "use_pos_enc"});
  return t;
}

TransformerShape read_nemotron_h(HuggingFaceConfig& config) {
  TransformerShape t;
  t.layers = config.count_or("num_hidden_layers", 0, 0);
  t.hidden = config.count("hidden_size");
  t.heads = config.count("num_attention_heads");
  t.kv_heads = config.count_or("num_key_value_heads", 8);
  t.head_width = config.count_or("head_dim", 128);
  t.feed_forward = config.count("intermediate_size");
  t.vocabulary = config.count("vocab_size");
  t.tokens = 4096;
  t.position = PositionKind::none;
  t.gated = false;
  t.activation = ActivationKind::relu_squared;
  if (const auto name = config.field("mlp_hidden_act")) name->as_choice({"relu2"});
  const MixerPtr mamba = mixer(StateSpace{.heads = config.count_or("mamba_num_heads", 128),
                                          .head_width = config.count_or("mamba_head_dim", 64),
                                          .state = config.count_or("ssm_state_size", 128),
                                          .groups = config.count_or("n_groups", 8),
                                          .kernel = config.count_or("conv_kernel", 4),
                                          .chunk = config.count_or("chunk_size", 128)});
  t.experts = Experts{.count = config.count_or("n_routed_experts", 8),
                      .active = config.count_or("num_experts_per_tok", 2),
                      .width = config.count_or("moe_intermediate_size", 7688)};
  t.experts->latent = config.count_or("moe_latent_size", 0, 0);
  t.experts->shared_width = config.count_or("moe_shared_expert_intermediate_size", 7688) *
                            config.count_or("n_shared_experts", 1, 0);
  read_pattern(config, mamba, t);
  t.tied = config.flag_or("tie_word_embeddings", false);
  for (const char* bias : {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"})
    config.require_value(bias, false);
  config.require_value("use_conv_bias", true);
  config.ignore({"expand",
                 "hidden_dropout",
                 "mamba_hidden_act",
                 "mamba_dt_limit",
                 "time_step_limit",
                 "time_step_min",
                 "time_step_max",
                 "time_step_floor",
                 "mamba_ssm_cache_dtype",
                 "num_logits_to_keep",
                 "rescale_prenorm_residual",
                 "residual_in_fp32",
                 "use_mamba_kernels",
                 "max_position_embeddings",
                 "n_group",
                 "topk_group",
                 "norm_topk_prob",
                 "routed_scaling_factor",
                 "sliding_window",
                 "layer_norm_epsilon",
                 "partial_rotary_factor",
                 "mlp_hidden_act",
                 "num_nextn_predict_layers",
                 "mtp_hybrid_override_pattern",
                 "mtp_layers_block_type",
                 "moe_shared_expert_overlap"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& hybrid_families() {
  static const std::vector<HuggingFaceFamily> kAll = {
      {"qwen3_next", read_gated_experts},
      {"qwen3_5_text", read_gated_dense},
      {"qwen3_5", read_text_of<read_gated_dense>},
      {"qwen3_5_moe_text", read_gated_experts},
      {"qwen3_5_moe", read_text_of<read_gated_experts>},
      {"granitemoehybrid", read_granite_hybrid},
      {"kimi_linear", read_kimi_linear},
      {"lfm2", read_lfm2},
      {"nemotron_h", read_nemotron_h}};
  return kAll;
}

}  // namespace rehearse::inline model
