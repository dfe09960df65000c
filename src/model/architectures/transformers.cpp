// The built-in transformers, as rows of dimensions.
#include <map>

#include "model/architecture.hpp"
#include "model/mixers.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kGpt2 =
    "Radford et al. 2019, Language Models are Unsupervised Multitask Learners; tied lm_head";
constexpr const char* kMpt =
    "mosaicml/llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; tied lm_head";
constexpr const char* kLlama2 =
    "Touvron et al., arXiv:2307.09288 (Llama 2); torch.nn.RMSNorm, rotary embedding as in the "
    "reference code";

TransformerShape gpt(const GptSize& size) {
  return {.name = size.name,
          .family = "gpt2",
          .source = kGpt2,
          .unit_prefix = "h",
          .layers = size.blocks,
          .hidden = size.hidden,
          .heads = size.heads,
          .kv_heads = size.heads,
          .head_width = size.hidden / size.heads,
          .feed_forward = 4 * size.hidden,
          .vocabulary = size.vocabulary,
          .tokens = size.positions,
          .most_tokens = size.positions,
          .norm = NormKind::layer_norm,
          .position = PositionKind::learned,
          .position_rows = size.positions,
          .fused_qkv = true,
          .qkv_bias = true,
          .output_bias = true,
          .activation = ActivationKind::gelu,
          .gated = false,
          .feed_forward_bias = true,
          .tied = true,
          .dropout = 0.1};
}

/// Its position table is as long as the sequence.
TransformerShape mpt(const GptSize& size) {
  TransformerShape t = gpt(size);
  t.family = "mpt";
  t.source = kMpt;
  t.vocabulary = 50368;
  t.tokens = 2048, t.most_tokens = t.position_rows = 0;
  t.dropout = 0;
  return t;
}

/// Tensors in the order of use (norm, q, k, v, o, norm, gate, up, down), as in the reference code,
/// which makes its table of rotations in each layer.
TransformerShape llama(const LlamaSize& size) {
  return {.name = size.name,
          .family = "llama",
          .source = kLlama2,
          .layers = size.blocks,
          .hidden = size.hidden,
          .heads = size.heads,
          .kv_heads = size.kv_heads,
          .head_width = size.hidden / size.heads,
          .feed_forward = size.feed_forward,
          .vocabulary = size.vocabulary,
          .tokens = 4096,
          .shared_rotary = false};
}

/// Later decoders, as their config.json says: `source` names it.
TransformerShape decoder(const LlamaSize& size, const char* family, const char* source) {
  TransformerShape t = llama(size);
  t.family = family;
  t.source = source;
  t.shared_rotary = true;
  return t;
}

constexpr const char* kLlama3 = "Grattafiori et al., arXiv:2407.21783; meta-llama/Llama-3.1";

TransformerShape llama3(const LlamaSize& size) {
  TransformerShape t = decoder(size, "llama", kLlama3);
  t.vocabulary = 128256;
  return t;
}

TransformerShape qwen2(const LlamaSize& size) {
  TransformerShape t = decoder(size, "qwen2", "Qwen Team, arXiv:2412.15115; Qwen/Qwen2.5");
  t.qkv_bias = true;
  return t;
}

/// Heads of 128 channels, whatever the hidden size.
TransformerShape qwen3(const LlamaSize& size) {
  TransformerShape t = decoder(size, "qwen3", "Qwen Team, arXiv:2505.09388; Qwen/Qwen3");
  t.vocabulary = 151936;
  t.head_width = 128;
  t.head_norm = HeadNorm::each_head;
  return t;
}

TransformerShape with_experts(TransformerShape t, const Experts& experts) {
  t.experts = experts;
  return t;
}

TransformerShape qwen3_moe(const LlamaSize& size, std::int64_t width) {
  TransformerShape t = qwen3(size);
  t.family = "qwen3_moe";
  return with_experts(t, {.count = 128, .active = 8, .width = width});
}

/// Three blocks of linear attention, then one of gated attention.
TransformerShape qwen3_next(const LlamaSize& size) {
  TransformerShape t = qwen3(size);
  t.family = "qwen3_next";
  t.source = "Qwen Team 2025; Qwen/Qwen3-Next-80B-A3B-Instruct, as transformers 5.x builds it";
  t.head_width = 256;
  t.attention_gate = true;
  const MixerPtr linear = mixer(LinearAttention{});
  t.parts = {{linear}, {linear}, {linear}, {}};
  return with_experts(
      t, {.count = 512, .active = 10, .width = 512, .shared_width = 512, .shared_gate = true});
}

TransformerShape nemotron_3_nano() {
  TransformerShape t = decoder({.name = "nemotron_3_nano_30b_a3b",
                                .hidden = 2688,
                                .feed_forward = 1856,
                                .heads = 32,
                                .kv_heads = 2,
                                .blocks = 52,
                                .vocabulary = 131072},
                               "nemotron_h",
                               "NVIDIA 2025; nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, as "
                               "transformers 5.x builds it");
  t.head_width = 128;
  t.position = PositionKind::none;
  t.gated = false;
  t.activation = ActivationKind::relu_squared;
  t = with_experts(t, {.count = 128, .active = 6, .width = 1856, .shared_width = 3712});
  set_hybrid_pattern("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", mixer(StateSpace{}),
                     t);
  return t;
}

TransformerShape mistral(const LlamaSize& size, const char* source) {
  TransformerShape t = decoder(size, "mistral", source);
  return t;
}

TransformerShape mixtral(const LlamaSize& size) {
  return with_experts(decoder(size, "mixtral", "Jiang et al., arXiv:2401.04088; mistralai/Mixtral"),
                      {.count = 8, .active = 2, .width = size.feed_forward});
}

TransformerShape deepseek_v3() {
  TransformerShape t = decoder({.name = "deepseek_v3",
                                .hidden = 7168,
                                .feed_forward = 18432,
                                .heads = 128,
                                .kv_heads = 128,
                                .blocks = 61,
                                .vocabulary = 129280},
                               "deepseek_v3",
                               "DeepSeek-AI, arXiv:2412.19437, without its module for a second "
                               "token; deepseek-ai/DeepSeek-V3");
  t.latent = LatentAttention{.query_rank = 1536};
  return with_experts(
      t, {.count = 256, .active = 8, .width = 2048, .shared_width = 2048, .first_dense = 3});
}

TransformerShape gpt_oss_120b() {
  TransformerShape t = decoder({.name = "gpt_oss_120b",
                                .hidden = 2880,
                                .feed_forward = 2880,
                                .heads = 64,
                                .kv_heads = 8,
                                .blocks = 36,
                                .vocabulary = 201088},
                               "gpt_oss", "OpenAI, arXiv:2508.10925; openai/gpt-oss-120b");
  t.head_width = 64;
  t.qkv_bias = t.output_bias = t.sinks = true;
  t.norm_form = NormForm::wide;
  t.window = 128;
  t.full_every = 2;
  return with_experts(t,
                      {.count = 128, .active = 4, .width = 2880, .biases = true, .clamped = true});
}

/// For text as bytes, and without dropout: what it computes follows from parameters and data.
TransformerShape small_gpt2() {
  TransformerShape t = gpt({.name = "small_gpt2",
                            .hidden = 64,
                            .heads = 4,
                            .blocks = 2,
                            .vocabulary = 256,
                            .positions = 256});
  t.dropout = 0;
  return t;
}

TransformerShape gpt3_175b() {
  TransformerShape t =
      gpt({.name = "gpt3_175b", .hidden = 12288, .heads = 96, .blocks = 96, .positions = 2048});
  t.source = "Brown et al., arXiv:2005.14165, dense attention in every layer";
  return t;
}

TransformerShape t5_11b() {
  return {.name = "t5_11b",
          .family = "t5",
          .source = "Raffel et al., arXiv:1910.10683; google-t5/t5-11b",
          .layers = 24,
          .hidden = 1024,
          .heads = 128,
          .kv_heads = 128,
          .head_width = 128,
          .feed_forward = 65536,
          .vocabulary = 32128,
          .tokens = 512,
          .norm_form = NormForm::of_input,
          .position = PositionKind::relative,
          .activation = ActivationKind::relu,
          .gated = false,
          .tied = true,
          .dropout = 0.1,
          .encoder_layers = 24};
}

/// max_position_embeddings of the networks' config.json at Hugging Face; of Llama 3 that of 3.1.
const std::map<std::string, std::int64_t> kServed = {
    {"llama_7b", 4096},           {"llama_70b", 4096},          {"llama_3_8b", 131'072},
    {"llama_3_70b", 131'072},     {"llama_3_405b", 131'072},    {"mistral_7b", 32'768},
    {"mixtral_8x7b", 32'768},     {"mixtral_8x22b", 65'536},    {"qwen2_5_7b", 131'072},
    {"qwen2_5_72b", 131'072},     {"qwen3_8b", 40'960},         {"qwen3_32b", 40'960},
    {"qwen3_30b_a3b", 262'144},   {"qwen3_235b_a22b", 262'144}, {"qwen3_next_80b_a3b", 262'144},
    {"nemotron_3_nano", 262'144}, {"deepseek_v3", 163'840},     {"gpt_oss_120b", 131'072}};

std::vector<BuiltInTransformer> classic() {
  return {
      {gpt({.name = "gpt2"}), "GPT-2 small (Radford et al. 2019), 124.4 M parameters, 1024 tokens"},
      {gpt({.name = "gpt2_xl", .hidden = 1600, .heads = 25, .blocks = 48}),
       "GPT-2 XL (Radford et al. 2019), 1.56 B parameters, 1024 tokens"},
      {small_gpt2(), "Two blocks as GPT-2's over bytes, 0.13 M parameters, 256 tokens"},
      {mpt({.name = "mpt_125m"}),
       "MPT 125m (MosaicML, llm-foundry), 125.3 M parameters, 2048 tokens"},
      {mpt({.name = "mpt_350m", .hidden = 1024, .heads = 16, .blocks = 24}),
       "MPT 350m (MosaicML, llm-foundry), 356.0 M parameters, 2048 tokens"},
      {mpt({.name = "mpt_760m", .hidden = 1536, .heads = 12, .blocks = 24}),
       "MPT 760m (MosaicML, llm-foundry), 760.5 M parameters, 2048 tokens"},
      {mpt({.name = "mpt_1b", .hidden = 2048, .heads = 16, .blocks = 24}),
       "MPT 1b (MosaicML, llm-foundry), 1.32 B parameters, 2048 tokens"},
      {mpt({.name = "mpt_3b", .hidden = 2560, .heads = 20, .blocks = 32}),
       "MPT 3b (MosaicML, llm-foundry), 2.65 B parameters, 2048 tokens"},
      {mpt({.name = "mpt_7b", .hidden = 4096, .heads = 32, .blocks = 32}),
       "MPT 7b (MosaicML, llm-foundry), 6.66 B parameters, 2048 tokens"},
      {mpt({.name = "mpt_13b", .hidden = 5120, .heads = 40, .blocks = 40}),
       "MPT 13b (MosaicML, llm-foundry), 12.85 B parameters, 2048 tokens"},
      {llama({.name = "llama_7b"}),
       "Llama 2 7B (Touvron et al. 2023), 6.74 B parameters, 4096 tokens"},
      {llama({.name = "llama_70b",
              .hidden = 8192,
              .feed_forward = 28672,
              .heads = 64,
              .kv_heads = 8,
              .blocks = 80}),
       "Llama 2 70B (Touvron et al. 2023), 69.0 B parameters, 4096 tokens"},
      {llama({.name = "small_llama",
              .hidden = 512,
              .feed_forward = 1376,
              .heads = 4,
              .kv_heads = 2,
              .blocks = 4}),
       "Four blocks as Llama 2's with grouped queries, 44.4 M parameters, 4096 tokens"}};
}

std::vector<BuiltInTransformer> recent() {
  return {
      {gpt({.name = "gpt2_medium", .hidden = 1024, .heads = 16, .blocks = 24}),
       "GPT-2 medium (Radford et al. 2019), 354.8 M parameters, 1024 tokens"},
      {gpt({.name = "gpt2_large", .hidden = 1280, .heads = 20, .blocks = 36}),
       "GPT-2 large (Radford et al. 2019), 774.0 M parameters, 1024 tokens"},
      {gpt3_175b(), "GPT-3 (Brown et al. 2020), 174.6 B parameters, 2048 tokens"},
      {llama3({.name = "llama_3_8b", .feed_forward = 14336, .kv_heads = 8}),
       "Llama 3.x 8B (Grattafiori et al. 2024), 8.03 B parameters, 4096 tokens"},
      {llama3({.name = "llama_3_70b",
               .hidden = 8192,
               .feed_forward = 28672,
               .heads = 64,
               .kv_heads = 8,
               .blocks = 80}),
       "Llama 3.x 70B (Grattafiori et al. 2024), 70.6 B parameters, 4096 tokens"},
      {llama3({.name = "llama_3_405b",
               .hidden = 16384,
               .feed_forward = 53248,
               .heads = 128,
               .kv_heads = 8,
               .blocks = 126}),
       "Llama 3.1 405B (Grattafiori et al. 2024), 405.9 B parameters, 4096 tokens"},
      {mistral({.name = "mistral_7b", .feed_forward = 14336, .kv_heads = 8},
               "Jiang et al., arXiv:2310.06825; mistralai/Mistral-7B-v0.2, no sliding window"),
       "Mistral 7B v0.2 (Jiang et al. 2023), 7.24 B parameters, 4096 tokens"},
      {mixtral({.name = "mixtral_8x7b", .feed_forward = 14336, .kv_heads = 8}),
       "Mixtral 8x7B (Jiang et al. 2024), 46.7 B parameters, 12.9 B active, 4096 tokens"},
      {mixtral({.name = "mixtral_8x22b",
                .hidden = 6144,
                .feed_forward = 16384,
                .heads = 48,
                .kv_heads = 8,
                .blocks = 56,
                .vocabulary = 32768}),
       "Mixtral 8x22B (Mistral AI 2024), 140.6 B parameters, 39.2 B active, 4096 tokens"},
      {qwen2({.name = "qwen2_5_7b",
              .hidden = 3584,
              .feed_forward = 18944,
              .heads = 28,
              .kv_heads = 4,
              .blocks = 28,
              .vocabulary = 152064}),
       "Qwen 2.5 7B (Qwen Team 2024), 7.62 B parameters, 4096 tokens"},
      {qwen2({.name = "qwen2_5_72b",
              .hidden = 8192,
              .feed_forward = 29568,
              .heads = 64,
              .kv_heads = 8,
              .blocks = 80,
              .vocabulary = 152064}),
       "Qwen 2.5 72B (Qwen Team 2024), 72.7 B parameters, 4096 tokens"},
      {qwen3({.name = "qwen3_8b", .feed_forward = 12288, .kv_heads = 8, .blocks = 36}),
       "Qwen 3 8B (Qwen Team 2025), 8.19 B parameters, 4096 tokens"},
      {qwen3({.name = "qwen3_32b",
              .hidden = 5120,
              .feed_forward = 25600,
              .heads = 64,
              .kv_heads = 8,
              .blocks = 64}),
       "Qwen 3 32B (Qwen Team 2025), 32.8 B parameters, 4096 tokens"},
      {qwen3_moe({.name = "qwen3_30b_a3b",
                  .hidden = 2048,
                  .feed_forward = 6144,
                  .heads = 32,
                  .kv_heads = 4,
                  .blocks = 48},
                 768),
       "Qwen 3 30B-A3B (Qwen Team 2025), 30.5 B parameters, 3.35 B active, 4096 tokens"},
      {qwen3_moe({.name = "qwen3_235b_a22b",
                  .hidden = 4096,
                  .feed_forward = 12288,
                  .heads = 64,
                  .kv_heads = 4,
                  .blocks = 94},
                 1536),
       "Qwen 3 235B-A22B (Qwen Team 2025), 235.1 B parameters, 22.2 B active, 4096 tokens"},
      {qwen3_next({.name = "qwen3_next_80b_a3b",
                   .hidden = 2048,
                   .feed_forward = 5120,
                   .heads = 16,
                   .kv_heads = 2,
                   .blocks = 48}),
       "Qwen 3 Next 80B-A3B (Qwen Team 2025), 79.7 B parameters, 3.87 B active, 4096 tokens"},
      {nemotron_3_nano(),
       "Nemotron 3 Nano 30B-A3B (NVIDIA 2025), 31.6 B parameters, 3.58 B active, 4096 tokens"},
      {deepseek_v3(),
       "DeepSeek-V3 (DeepSeek-AI 2024), 671.0 B parameters, 37.6 B active, 4096 tokens"},
      {gpt_oss_120b(), "GPT-OSS 120B (OpenAI 2025), 116.8 B parameters, 5.7 B active, 4096 tokens"},
      {t5_11b(), "T5 11B (Raffel et al. 2019), 11.31 B parameters, 512 tokens to 512"},
      {vit({"vit_l_16", 1024, 16, 24, 4096, 16}),
       "ViT-L/16 (Dosovitskiy et al. 2020), 304.3 M parameters, 224x224"},
      {vit({"vit_h_14", 1280, 16, 32, 5120, 14}),
       "ViT-H/14 (Dosovitskiy et al. 2020), 632.0 M parameters, 224x224"}};
}

}  // namespace

const std::vector<BuiltInTransformer>& built_in_transformers() {
  static const std::vector<BuiltInTransformer> kAll = [] {
    std::vector<BuiltInTransformer> all = classic();
    for (BuiltInTransformer& one : recent()) all.push_back(std::move(one));
    for (BuiltInTransformer& one : all) {
      const auto served = kServed.find(one.shape.name);
      one.shape.served_tokens = served != kServed.end() ? served->second : one.shape.most_tokens;
    }
    return all;
  }();
  return kAll;
}

Model gpt2_model(const GptSize& size, const ModelShape& shape) {
  return transformer_model(gpt(size), shape);
}

Model llama_model(const LlamaSize& size, const ModelShape& shape) {
  return transformer_model(llama(size), shape);
}

}  // namespace rehearse::inline model
