// Decoders that vary Llama: other norms, layers without rotation, factors.
#include <algorithm>

#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {

void read_factors(HuggingFaceConfig& config, TransformerShape& t) {
  t.embedding_scale = t.branch_scale = t.logits_scale = t.divided_logits = true;
  config.ignore(
      {"embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"});
}

void read_partial_rotation(HuggingFaceConfig& config, TransformerShape& t, double fallback) {
  double share = config.number_or("partial_rotary_factor", fallback);
  if (const std::optional<Value> rope = config.field("rope_parameters")) {
    std::vector<std::string> none;
    share = HuggingFaceConfig(rope->as_map(), none).number_or("partial_rotary_factor", share);
  }
  const auto width = static_cast<std::int64_t>(share * static_cast<double>(t.head_width));
  t.rotated_width = std::clamp<std::int64_t>(width / 2 * 2, 2, t.head_width);
}

void read_unrotated(HuggingFaceConfig& config, TransformerShape& t) {
  const std::int64_t every = config.count_or("no_rope_layer_interval", 4);
  const std::optional<Value> rotates = config.field("no_rope_layers");
  const std::vector<Value> list = rotates ? rotates->as_list() : std::vector<Value>{};
  if (list.empty()) {
    for (std::int64_t block = 1; block <= t.layers; ++block)
      t.unrotated.push_back(block % every == 0);
    return;
  }
  for (const Value& one : list) t.unrotated.push_back(one.as_integer(0, 1) == 0);
  if (static_cast<std::int64_t>(t.unrotated.size()) != t.layers)
    rotates->fail("of as many layers as there are");
}

namespace {

TransformerShape read_granite(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  read_factors(config, t);
  return t;
}

/// Without layer_types those that do not rotate slide.
TransformerShape read_smollm3(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config, true);
  read_unrotated(config, t);
  read_sliding(config, t, config.flag_or("use_sliding_window", false));
  if (t.sliding.empty()) t.sliding = t.unrotated;
  config.ignore({"max_window_layers"});
  return t;
}

TransformerShape read_seed_oss(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.qkv_bias = config.flag_or("attention_bias", true);
  t.output_bias = config.flag_or("attention_out_bias", false);
  t.dropout = config.number_or("residual_dropout", 0.1);
  t.embedding_dropout = false;
  return t;
}

TransformerShape read_glm4(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.norm_place = NormPlace::around;
  t.head_width = config.count_or("head_dim", 128);
  t.qkv_bias = config.flag_or("attention_bias", true);
  t.output_bias = false;
  t.fused_gate = t.partial_rotation = true;
  t.spelling.neighbours = t.spelling.repeats_table = true;
  config.require_value("mlp_bias", false);
  read_partial_rotation(config, t, 0.5);
  return t;
}

TransformerShape read_olmo3(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.norm_place = NormPlace::after;
  t.head_norm = HeadNorm::all_heads;
  t.spelling.wide_rotation = true;
  t.norm_form = NormForm::wide;
  t.full_every = 4;
  read_sliding(config, t);
  if (t.window == 0) t.window = 4096;
  config.require_value("mlp_bias", false);
  return t;
}

TransformerShape read_ernie4_5(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config, true);
  t.head_width = config.count_or("head_dim", 128);
  t.qkv_bias = t.output_bias = t.feed_forward_bias = config.flag_or("use_bias", false);
  t.spelling.neighbours = t.spelling.repeats_table = t.spelling.turns_narrow = true;
  return t;
}

/// Where some layers slide, the others do not rotate.
TransformerShape read_exaone4(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.norm_place = NormPlace::after;
  t.head_norm = HeadNorm::each_head;
  t.spelling.heads_first = true;
  config.require_value("attention_bias", false);
  config.require_value("mlp_bias", false);
  read_sliding(config, t);
  config.ignore({"sliding_window_pattern"});
  if (t.sliding.empty()) t.full_every = config.count_or("sliding_window_pattern", 4, 0);
  for (std::int64_t block = 0; block < t.layers && t.window > 0; ++block)
    t.unrotated.push_back(!t.slides(block));
  return t;
}

TransformerShape read_hunyuan(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.head_norm = HeadNorm::each_head;
  t.spelling.rotates_first = t.spelling.heads_first = true;
  config.require_value("mlp_bias", false);
  config.ignore({"eod_token_id"});
  return t;
}

TransformerShape read_arcee(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  t.gated = false;
  t.activation = read_activation(config, {"hidden_act"}, "relu2");
  return t;
}

/// Its activation, xIELU, keeps its input, as GELU does; its two trained numbers are left out.
TransformerShape read_apertus(HuggingFaceConfig& config) {
  TransformerShape t = read_usual(config);
  t.feed_forward = config.count("intermediate_size");
  t.head_norm = HeadNorm::each_head;
  t.spelling.heads_first = true;
  t.gated = false;
  t.activation = ActivationKind::gelu;
  t.qkv_bias = t.output_bias = config.flag_or("attention_bias", false);
  t.tied = config.flag_or("tie_word_embeddings", false);
  config.require_value("mlp_bias", false);
  config.require_value("post_norm", false);
  config.require_value("qk_norm", true);
  config.assume("xIELU is taken as a GELU: one kernel, which keeps its input");
  return t;
}

/// Both generations: Mistral with layers of both kinds.
TransformerShape read_ministral(HuggingFaceConfig& config) {
  TransformerShape t = read_llama(config);
  read_sliding(config, t);
  return t;
}

}  // namespace

const std::vector<HuggingFaceFamily>& later_families() {
  static const std::vector<HuggingFaceFamily> kAll = {
      {"granite", read_granite},   {"smollm3", read_smollm3},
      {"seed_oss", read_seed_oss}, {"glm4", read_glm4},
      {"olmo3", read_olmo3},       {"ernie4_5", read_ernie4_5},
      {"exaone4", read_exaone4},   {"hunyuan_v1_dense", read_hunyuan},
      {"arcee", read_arcee},       {"ministral", read_ministral},
      {"apertus", read_apertus}};
  return kAll;
}

}  // namespace rehearse::inline model
