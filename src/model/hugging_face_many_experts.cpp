// Decoders with mixtures of experts that vary Mixtral or DeepSeek.
#include "model/hugging_face_config.hpp"

namespace rehearse::inline model {
namespace {

TransformerShape read_olmoe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.head_norm = HeadNorm::all_heads;
  t.experts = Experts{.count = config.count_or("num_experts", 64),
                      .active = config.count_or("num_experts_per_tok", 8),
                      .width = t.feed_forward};
  config.check_count("num_local_experts", t.experts->count);
  config.require_null("clip_qkv");
  config.require_value("mlp_bias", false);
  config.ignore({"norm_topk_prob"});
  return t;
}

TransformerShape read_granitemoe(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  read_factors(config, t);
  t.experts = Experts{.count = config.count_or("num_local_experts", 8),
                      .active = config.count_or("num_experts_per_tok", 2),
                      .width = t.feed_forward};
  config.require_value("mlp_bias", false);
  return t;
}

/// DeepSeek-V3's experts behind usual attention.
TransformerShape read_routed(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  Experts experts{.count = config.count_or("n_routed_experts", 128),
                  .active = config.count_or("num_experts_per_tok", 8),
                  .width = config.count_or("moe_intermediate_size", 1408),
                  .wide_router = true};
  config.check_count("num_local_experts", experts.count);
  experts.shared_width = config.count_or("n_shared_experts", 0, 0) * experts.width;
  experts.first_dense = config.count_or("first_k_dense_replace", 0, 0);
  t.experts = experts;
  config.require_value("mlp_bias", false);
  config.ignore({"n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor", "scoring_func",
                 "topk_method"});
  return t;
}

TransformerShape read_glm4_moe(HuggingFaceConfig& config) {
  TransformerShape t = read_routed(config);
  t.output_bias = false;
  t.partial_rotation = true;
  if (config.flag_or("use_qk_norm", false)) t.head_norm = HeadNorm::each_head;
  if (config.count_or("num_nextn_predict_layers", 0, 0) > 0)
    config.assume(
        "num_nextn_predict_layers is left out, as transformers leaves it out; "
        "multi_token_prediction: 1 beside hf adds it");
  config.ignore({"partial_rotary_factor", "num_mtp_layers"});
  return t;
}

TransformerShape read_dots1(HuggingFaceConfig& config) {
  TransformerShape t = read_routed(config);
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
                  .wide_router = true};
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
  config.assume("the routers' corrections, which are not trained, are no parameters");
  config.ignore({"moe_norm_min"});
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& many_expert_families() {
  static const std::vector<HuggingFaceFamily> kAll = {{"olmoe", read_olmoe},
                                                      {"granitemoe", read_granitemoe},
                                                      {"glm4_moe", read_glm4_moe},
                                                      {"dots1", read_dots1},
                                                      {"ernie4_5_moe", read_ernie4_5_moe}};
  return kAll;
}

}  // namespace rehearse::inline model
