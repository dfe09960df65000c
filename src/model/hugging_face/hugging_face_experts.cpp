// Decoders with mixtures of experts.
#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {

Experts read_qwen_experts(HuggingFaceConfig& config, std::int64_t count, std::int64_t active,
                          bool normed) {
  // transformers 5 writes num_local_experts, its other name for it, alone.
  Experts experts{
      .count = config.count_or("num_experts", config.count_or("num_local_experts", count)),
      .active = config.count_or("num_experts_per_tok", active),
      .width = config.count("moe_intermediate_size")};
  experts.interval = config.count_or("decoder_sparse_step", 1);
  if (const std::optional<Value> dense = config.field("mlp_only_layers"))
    for (const Value& block : dense->as_list())
      experts.dense_blocks.push_back(block.as_integer(0, 100'000));
  config.check_count("num_local_experts", experts.count);
  experts.router.narrow = true;
  experts.router.normed = config.flag_or("norm_topk_prob", normed);
  return experts;
}

Router read_grouped_router(HuggingFaceConfig& config, bool normed) {
  Router router{.weighing = Router::Weighing::sigmoid,
                .views = Router::Views::apart,
                .wide = true,
                .wide_weight = true,
                .corrected = true,
                .groups = config.count_or("n_group", 1),
                .kept_groups = config.count_or("topk_group", 1),
                .scaled = true};
  router.normed = router.shifted = config.flag_or("norm_topk_prob", normed);
  config.ignore({"routed_scaling_factor", "scoring_func", "topk_method"});
  return router;
}

namespace {

TransformerShape read_mixtral(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.experts = Experts{.count = config.count_or("num_local_experts", 8),
                      .active = config.count_or("num_experts_per_tok", 2),
                      .width = t.feed_forward,
                      .router = {.normed = true}};
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t);
  config.ignore({"router_jitter_noise"});
  return t;
}

TransformerShape read_qwen2_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.qkv_bias = config.flag_or("qkv_bias", true);
  t.experts = read_qwen_experts(config, 60, 4);
  t.experts->shared_width = config.count("shared_expert_intermediate_size");
  t.experts->shared_gate = true;
  t.experts->router.views = Router::Views::throughout;
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t, config.flag_or("use_sliding_window", false));
  config.ignore({"max_window_layers"});
  return t;
}

TransformerShape read_qwen3_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.head_norm = HeadNorm::each_head;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.experts = read_qwen_experts(config, 128, 8);
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t, config.flag_or("use_sliding_window", false));
  config.ignore({"max_window_layers"});
  return t;
}

/// Both generations: latent attention, fine-grained experts after the first dense blocks.
TransformerShape read_deepseek(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.latent = LatentAttention{.query_rank = config.count_or("q_lora_rank", 0),
                             .key_rank = config.count("kv_lora_rank"),
                             .plain_width = config.count("qk_nope_head_dim"),
                             .rotated_width = config.count("qk_rope_head_dim"),
                             .value_width = config.count("v_head_dim")};
  config.check_count("qk_head_dim", t.latent->plain_width + t.latent->rotated_width);
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  config.require_value("mlp_bias", false);
  Experts experts{.count = config.count("n_routed_experts"),
                  .active = config.count("num_experts_per_tok"),
                  .width = config.count("moe_intermediate_size"),
                  .router = read_grouped_router(config, true)};
  config.check_count("num_local_experts", experts.count);
  experts.shared_width = config.count_or("n_shared_experts", 0, 0) * experts.width;
  experts.first_dense = config.count_or("first_k_dense_replace", 0, 0);
  if (const std::optional<Value> interval = config.field("moe_layer_freq");
      interval && interval->as_integer(1, 100'000) != 1)
    interval->fail("only moe_layer_freq: 1 is modelled");
  t.experts = experts;
  t.tied = config.flag_or("tie_word_embeddings", false);
  if (config.count_or("num_nextn_predict_layers", 0, 0) > 0)
    config.assume(
        "num_nextn_predict_layers is left out, as transformers leaves it out; "
        "multi_token_prediction: 1 beside hf adds it");
  if (config.flag_or("rope_interleave", true)) t.latent->rotation = LatentRotation::pairs;
  config.ignore({"aux_loss_alpha", "seq_aux", "ep_size"});
  return t;
}

/// Its router is greedy, or takes the best experts of each group's best.
TransformerShape read_deepseek_v2(HuggingFaceConfig& config) {
  const bool grouped = config.text_or("topk_method", "greedy") == "group_limited_greedy";
  TransformerShape t = read_deepseek(config);
  Router& router = t.experts->router;
  router.weighing = Router::Weighing::softmax;
  router.corrected = router.normed = router.shifted = false;
  if (!grouped) router.groups = 0;
  t.latent->rotation = LatentRotation::complex;
  return t;
}

/// GLM-4.7-Flash: DeepSeek's blocks, of which `mlp_layer_types` says which are dense.
TransformerShape read_glm4_moe_lite(HuggingFaceConfig& config) {
  TransformerShape t = read_deepseek(config);
  const std::vector<bool> dense = by_layer(config, "mlp_layer_types", t, {"dense", "sparse"});
  t.experts->first_dense = dense.empty() ? config.count_or("first_k_dense_replace", 1, 0) : 0;
  for (std::size_t block = 0; block < dense.size(); ++block)
    if (dense[block]) t.experts->dense_blocks.push_back(static_cast<std::int64_t>(block));
  return t;
}

/// Sparse attention: a query sees the `index_topk` keys that an indexer chooses.
TransformerShape read_sparse(HuggingFaceConfig& config) {
  TransformerShape t = read_deepseek(config);
  const std::vector<bool> dense = by_layer(config, "mlp_layer_types", t, {"dense", "sparse"});
  t.experts->first_dense = dense.empty() ? config.count_or("first_k_dense_replace", 3, 0) : 0;
  for (std::size_t block = 0; block < dense.size(); ++block)
    if (dense[block]) t.experts->dense_blocks.push_back(static_cast<std::int64_t>(block));
  t.window = config.count_or("index_topk", 2048);
  config.assume(
      "sparse attention is taken as a window of index_topk tokens, and its indexer is "
      "left out");
  config.ignore({"index_head_dim", "index_n_heads", "layer_types", "indexer_types", "head_dim",
                 "index_topk_freq", "index_topk_pattern", "indexer_rope_interleave"});
  return t;
}

TransformerShape read_gpt_oss(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.head_width = config.count_or("head_dim", 64);
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", true);
  t.sinks = true;
  t.norm_form = NormForm::wide;
  t.experts = Experts{.count = config.count_or("num_local_experts", 128),
                      .active = config.count_or("num_experts_per_tok", 4),
                      .width = t.feed_forward,
                      .biases = true,
                      .router = {.weighing = Router::Weighing::softmax_of_chosen},
                      .clamped = true};
  t.spelling.half_table = true;
  t.tied = config.flag_or("tie_word_embeddings", false);
  read_sliding(config, t);
  if (t.sliding.empty())
    for (std::int64_t i = 0; i < t.layers; ++i) t.sliding.push_back(i % 2 == 0);
  config.ignore({"experts_per_token", "swiglu_limit", "swiglu_alpha", "initial_context_length"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& expert_families() {
  static const std::vector<HuggingFaceFamily> kAll = {
      {"mixtral", read_mixtral},      {"qwen2_moe", read_qwen2_moe},
      {"qwen3_moe", read_qwen3_moe},  {"deepseek_v2", read_deepseek_v2},
      {"deepseek_v3", read_deepseek}, {"gpt_oss", read_gpt_oss},
      {"deepseek_v32", read_sparse},  {"glm4_moe_lite", read_glm4_moe_lite}};
  return kAll;
}

}  // namespace rehearse::inline model
