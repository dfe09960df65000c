// Decoders with mixtures of experts that vary Mixtral or DeepSeek.
#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {
namespace {

TransformerShape read_olmoe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.head_norm = HeadNorm::all_heads;
  t.experts = Experts{.count = config.count_or("num_experts", 64),
                      .active = config.count_or("num_experts_per_tok", 8),
                      .width = t.feed_forward,
                      .router = {.narrow = true}};
  t.experts->router.normed = config.flag_or("norm_topk_prob", false);
  config.check_count("num_local_experts", t.experts->count);
  config.require_null("clip_qkv");
  config.require_value("mlp_bias", false);
  return t;
}

TransformerShape read_granitemoe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  read_factors(config, t);
  t.experts = Experts{.count = config.count_or("num_local_experts", 8),
                      .active = config.count_or("num_experts_per_tok", 2),
                      .width = t.feed_forward,
                      .router = {.weighing = Router::Weighing::softmax_of_chosen, .narrow = true}};
  config.require_value("mlp_bias", false);
  return t;
}

/// As DeepSeek-V3 names them.
Experts routed_experts(HuggingFaceConfig& config, bool normed = true) {
  Experts experts{.count = config.count_or("n_routed_experts", 128),
                  .active = config.count_or("num_experts_per_tok", 8),
                  .width = config.count_or("moe_intermediate_size", 1408),
                  .router = read_grouped_router(config, normed)};
  config.check_count("num_local_experts", experts.count);
  experts.shared_width = config.count_or("n_shared_experts", 0, 0) * experts.width;
  experts.first_dense = config.count_or("first_k_dense_replace", 0, 0);
  return experts;
}

/// DeepSeek-V3's experts behind usual attention.
TransformerShape read_routed(HuggingFaceConfig& config, bool normed = true) {
  TransformerShape t = read_llama(config);
  t.experts = routed_experts(config, normed);
  config.require_value("mlp_bias", false);
  return t;
}

TransformerShape read_glm4_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_routed(config);
  t.output_bias = false;
  t.partial_rotation = true;
  read_partial_rotation(config, t, 0.5);
  if (config.flag_or("use_qk_norm", false)) t.head_norm = HeadNorm::each_head;
  if (config.count_or("num_nextn_predict_layers", 0, 0) > 0)
    config.assume(
        "num_nextn_predict_layers is left out, as transformers leaves it out; "
        "multi_token_prediction: 1 beside hf adds it");
  config.ignore({"num_mtp_layers"});
  return t;
}

TransformerShape read_dots1(HuggingFaceConfig& config) {
  TransformerShape t = read_routed(config, false);
  t.head_norm = HeadNorm::each_head;
  read_sliding(config, t);
  const std::int64_t full = config.count_or("max_window_layers", 62, 0);
  if (t.sliding.empty())
    for (std::int64_t block = 0; block < t.layers; ++block) t.sliding.push_back(block >= full);
  return t;
}

/// Experts from one block to another; the others are dense.
Experts ernie_experts(HuggingFaceConfig& config, std::int64_t layers) {
  Experts experts{.count = config.count_or("moe_num_experts", 64),
                  .active = config.count_or("moe_k", 6),
                  .width = config.count_or("moe_intermediate_size", 1536),
                  .router = {.views = Router::Views::throughout,
                             .wide = true,
                             .wide_weight = true,
                             .narrow = true,
                             .corrected = true,
                             .clamped = true}};
  config.check_count("num_local_experts", experts.count);
  experts.shared_width = config.count_or("moe_num_shared_experts", 2, 0) * experts.width;
  experts.interval = config.count_or("moe_layer_interval", 1);
  experts.first_dense = config.count_or("moe_layer_start_index", 1, 0);
  const std::int64_t last = config.count_or("moe_layer_end_index", -1, -1);
  for (std::int64_t block = last + 1; last >= 0 && block < layers; ++block)
    experts.dense_blocks.push_back(block);
  return experts;
}

TransformerShape read_ernie4_5_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config, true);
  t.qkv_bias = t.output_bias = t.feed_forward_bias = config.flag_or("use_bias", false);
  t.experts = ernie_experts(config, t.layers);
  t.spelling.neighbours = t.spelling.repeats_table = t.spelling.turns_narrow = true;
  config.assume("the routers' corrections, which are not trained, are no parameters");
  config.ignore({"moe_norm_min"});
  return t;
}

TransformerShape read_solar_open(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.experts = routed_experts(config);
  t.feed_forward = t.experts->width;
  t.qkv_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  t.partial_rotation = config.number_or("partial_rotary_factor", 1) < 1;
  config.ignore({"intermediate_size", "use_qk_norm"});
  return t;
}

/// Chunks of attention are taken as windows, which see more where samples are longer than one.
void read_chunks(HuggingFaceConfig& config, TransformerShape& t) {
  t.window = config.count_or("attention_chunk_size", 8192);
  t.sliding = by_layer(config, "layer_types", t, {"chunked_attention", "full_attention"});
  if (t.sliding.empty())
    for (const bool unrotated : t.unrotated) t.sliding.push_back(!unrotated);
  config.assume(
      "attention in chunks is taken as a window: of samples longer than a chunk it sees "
      "up to twice as much");
}

/// Blocks that `moe_layers` leaves out are dense.
TransformerShape read_llama4(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.head_width = config.count_or("head_dim", 128);
  t.feed_forward = config.count_or("intermediate_size_mlp", 16384);
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  if (config.flag_or("use_qk_norm", true)) t.head_norm = HeadNorm::rotated_heads;
  Experts experts{.count = config.count_or("num_local_experts", 16),
                  .active = config.count_or("num_experts_per_tok", 1),
                  .width = config.count_or("intermediate_size", 8192)};
  experts.shared_width = experts.width;
  experts.interval = config.count_or("interleave_moe_layer_step", 1);
  if (const std::optional<Value> listed = config.field("moe_layers")) {
    std::vector<bool> dense(static_cast<std::size_t>(t.layers), true);
    for (const Value& block : listed->as_list())
      dense[static_cast<std::size_t>(block.as_integer(0, t.layers - 1))] = false;
    experts.interval = 1;
    for (std::int64_t block = 0; block < t.layers; ++block)
      if (dense[static_cast<std::size_t>(block)]) experts.dense_blocks.push_back(block);
  }
  t.experts = experts;
  read_unrotated(config, t);
  read_chunks(config, t);
  config.assume(
      "tokens pass the experts that they choose; transformers' eager code has each expert "
      "compute all of them");
  config.ignore({"attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor",
                 "router_jitter_noise"});
  return t;
}

TransformerShape read_phimoe(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.norm = NormKind::layer_norm;
  t.wide_softmax = true;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.head_bias = config.flag_or("lm_head_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  t.experts = Experts{
      .count = config.count_or("num_local_experts", 16), .active = 2, .width = t.feed_forward};
  if (config.count_or("num_experts_per_tok", 2) != 2)
    config.assume(
        "num_experts_per_tok is left out: transformers' sparsemixer picks two for each token");
  read_sliding(config, t);
  config.ignore({"router_jitter_noise", "input_jitter_noise", "hidden_dropout"});
  return t;
}

TransformerShape read_minimax_m2(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.head_width = config.count_or("head_dim", 128);
  t.head_norm = HeadNorm::all_heads;
  t.partial_rotation = true;
  t.experts =
      Experts{.count = config.count_or("num_local_experts", 256),
              .active = config.count_or("num_experts_per_tok", 8),
              .width = t.feed_forward,
              .router = {.weighing = Router::Weighing::sigmoid, .corrected = true, .normed = true}};
  config.require_value("use_qk_norm", true);
  if (config.flag_or("use_mtp", false))
    config.assume(
        "num_mtp_modules is left out, as transformers leaves it out; "
        "multi_token_prediction: 1 beside hf adds one");
  config.ignore({"rotary_dim", "scoring_func", "use_routing_bias", "num_mtp_modules",
                 "mtp_transformer_layers", "shared_intermediate_size", "qk_norm_type",
                 "attn_type_list", "router_jitter_noise"});
  return t;
}

/// A number for all blocks, or a list of one for each, which are alike.
std::int64_t same_in_all_blocks(HuggingFaceConfig& config, const std::string& name) {
  const std::optional<Value> value = config.field(name);
  if (!value || !value->is_list()) return config.count_or(name, 1);
  const std::vector<Value> list = value->as_list();
  for (const Value& one : list)
    if (one.as_integer(1, 100'000) != list.front().as_integer(1, 100'000))
      one.fail("only blocks that are alike are modelled");
  return list.empty() ? 1 : list.front().as_integer(1, 100'000);
}

TransformerShape read_hunyuan_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.head_norm = HeadNorm::each_head;
  t.spelling.rotates_first = t.spelling.heads_first = true;
  t.experts = Experts{.count = same_in_all_blocks(config, "num_experts"),
                      .active = same_in_all_blocks(config, "moe_topk"),
                      .width = t.feed_forward,
                      .router = {.wide = true, .wide_weight = true, .normed = true}};
  t.experts->shared_width = t.feed_forward * same_in_all_blocks(config, "num_shared_expert");
  config.require_value("mlp_bias", false);
  config.ignore({"eod_token_id", "moe_intermediate_size", "use_mixed_mlp_moe", "use_qk_norm",
                 "moe_drop_tokens", "moe_random_routing_dropped_token", "moe_layer_num_skipped",
                 "norm_topk_prob", "routed_scaling_factor", "use_cla", "use_mla",
                 "num_media_embeds", "anyres_vit_max_image_size", "attention_head_dim"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& many_expert_families() {
  static const std::vector<HuggingFaceFamily> kAll = {{"olmoe", read_olmoe},
                                                      {"granitemoe", read_granitemoe},
                                                      {"glm4_moe", read_glm4_moe},
                                                      {"dots1", read_dots1},
                                                      {"ernie4_5_moe", read_ernie4_5_moe},
                                                      {"solar_open", read_solar_open},
                                                      {"llama4_text", read_llama4},
                                                      {"phimoe", read_phimoe},
                                                      {"minimax_m2", read_minimax_m2},
                                                      {"hunyuan_v1_moe", read_hunyuan_moe}};
  return kAll;
}

}  // namespace rehearse::inline model
