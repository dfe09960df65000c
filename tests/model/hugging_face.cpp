// Hugging Face's config.json: parameters against transformers' own count, and what is refused.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "../scratch.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"
#include "kept.hpp"
#include "model/architecture.hpp"
#include "model/hugging_face/derived_family.hpp"
#include "model/hugging_face/hugging_face.hpp"
#include "model/memory_tape.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(hugging_face_test)
namespace {

const std::filesystem::path& tests_folder() {
  static const std::filesystem::path kFolder = data_folder() / "tests" / "model";
  return kFolder;
}

struct Count {
  std::string name;
  std::int64_t parameters = 0, idle = 0;
};

/// transformers' counts (tests/model/count_with_transformers).
std::vector<Count> counts() {
  std::ifstream file(tests_folder() / "counts.txt");
  std::vector<Count> all;
  for (Count one; file >> one.name >> one.parameters >> one.idle;) all.push_back(one);
  return all;
}

TransformerShape shape_of(const std::string& name) {
  std::filesystem::path file = tests_folder() / "configs" / (name + ".json");
  for (const char* folder : {"experts", "encoders"})
    if (!std::filesystem::exists(file))
      file = tests_folder() / "configs" / folder / (name + ".json");
  return read_hugging_face(file).shape;
}

Model read(const std::string& name, const ModelShape& shape = {}) {
  return build_transformer(shape_of(name), shape);
}

/// Four blocks.
TransformerShape small_shape() {
  return {.name = "small",
          .layers = 4,
          .hidden = 64,
          .heads = 4,
          .kv_heads = 4,
          .head_width = 16,
          .feed_forward = 128,
          .vocabulary = 100};
}

BOOST_AUTO_TEST_CASE(parameters_are_those_that_transformers_counts) {
  const std::vector<Count> all = counts();
  BOOST_TEST(all.size() == 99);
  for (const Count& one : all) {
    const Model model = read(one.name);
    BOOST_TEST(model.parameters() == one.parameters, one.name);
    BOOST_TEST(model.parameters() - model.active_parameters() == one.idle, one.name);
  }
}

BOOST_AUTO_TEST_CASE(a_family_of_ones_own_is_read_as_the_one_that_it_is_like) {
  const Scratch folder;
  const auto llama = folder.write("llama.json",
                                  R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 100,
                                      "num_hidden_layers": 2, "num_attention_heads": 4,
                                      "intermediate_size": 96, "tie_word_embeddings": true})");
  const auto own = folder.write("own.json",
                                R"({"model_type": "acme", "dim": 64, "vocab_size": 100, "depth": 2,
                                    "num_attention_heads": 4, "intermediate_size": 96,
                                    "base": 1e4, "gate": true})");
  const auto family = folder.write("family.yaml",
                                   "like: llama\n"
                                   "names: {hidden_size: dim, num_hidden_layers: depth}\n"
                                   "defaults: {tie_word_embeddings: true}\n"
                                   "required: {gate: true}\n"
                                   "ignored: [base]\n");
  const TransformerShape read = read_hugging_face(own, Document::load(family)->root()).shape;
  BOOST_TEST(read.family == "acme");
  BOOST_TEST(build_transformer(read, {}).parameters() ==
             build_transformer(read_hugging_face(llama).shape, {}).parameters());
}

BOOST_AUTO_TEST_CASE(shipped_families_are_like_others_that_are_read) {
  const std::vector<std::string> all = hugging_face_families();
  for (const std::string& name : shipped_derived_names()) {
    const DerivedFamily family = read_derived_family(*shipped_derived(name), all);
    BOOST_TEST(!shipped_derived(family.like).has_value(), name);
    BOOST_TEST(std::ranges::count(all, name) == 1, name);
  }
}

BOOST_AUTO_TEST_CASE(built_in_networks_are_their_published_configs) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"llama_3_8b", "Llama-3.1-8B"},
      {"llama_3_70b", "Llama-3.1-70B"},
      {"llama_3_405b", "Llama-3.1-405B"},
      {"mistral_7b", "Mistral-7B-v0.1"},
      {"mixtral_8x7b", "Mixtral-8x7B-v0.1"},
      {"mixtral_8x22b", "Mixtral-8x22B-v0.1"},
      {"qwen2_5_7b", "Qwen2.5-7B"},
      {"qwen2_5_72b", "Qwen2.5-72B"},
      {"qwen3_8b", "Qwen3-8B"},
      {"qwen3_32b", "Qwen3-32B"},
      {"qwen3_30b_a3b", "Qwen3-30B-A3B"},
      {"qwen3_235b_a22b", "Qwen3-235B-A22B"},
      {"qwen3_next_80b_a3b", "Qwen3-Next-80B-A3B"},
      {"nemotron_3_nano_30b_a3b", "Nemotron-3-Nano-30B-A3B"},
      {"deepseek_v3", "DeepSeek-V3"},
      {"gpt_oss_120b", "gpt-oss-120b"},
      {"t5_11b", "t5-11b"},
      {"vit_l_16", "vit-large-patch16-224"},
      {"vit_h_14", "vit-huge-patch14-224"},
      {"gpt2_medium", "gpt2-medium"},
      {"gpt2_large", "gpt2-large"}};
  for (const auto& [name, config] : pairs) {
    const Model built_in = build_architecture(name, {});
    BOOST_TEST(built_in.parameters() == read(config).parameters(), name);
    BOOST_TEST(built_in.active_parameters() == read(config).active_parameters(), name);
  }
}

/// Products of one token: 2 FLOPs per weight that it passes, without the embedding.
BOOST_AUTO_TEST_CASE(forward_flops_are_two_per_active_weight_and_the_attention) {
  const double hidden = 4096, layers = 32, tokens = 512;
  const Model model = read("Mixtral-8x7B-v0.1", {.sequence = 512});
  const double norms = 65 * hidden;
  const auto weights = static_cast<double>(model.active_parameters()) - norms - 32000 * hidden;
  const double expected = tokens * (2 * weights + 4 * layers * hidden * tokens);
  BOOST_TEST(std::abs(model.forward_flops() / expected - 1) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_sliding_window_bounds_the_pairs_of_attention) {
  const double all = read("Mistral-7B-v0.1", {.sequence = 8192}).forward_flops();
  const double half = read("Mistral-7B-v0.1", {.sequence = 4096}).forward_flops();
  // Linear beyond the window: 4096 tokens each see 4096.
  BOOST_TEST(std::abs(all / (2 * half) - 1) < 1e-12);
}

/// Every family's tape plays to its end: each tensor that is taken but for gradients of parameters
/// is given back.
BOOST_AUTO_TEST_CASE(every_familys_tape_gives_back_what_it_takes) {
  for (const std::string name : {"Llama-3.2-1B",
                                 "Mistral-7B-v0.1",
                                 "Mixtral-8x7B-v0.1",
                                 "Qwen2.5-0.5B",
                                 "Qwen1.5-MoE-A2.7B",
                                 "Qwen3-0.6B",
                                 "Qwen3-30B-A3B",
                                 "gemma-2b",
                                 "gemma-2-2b",
                                 "gemma-3-1b",
                                 "Phi-3-mini-4k",
                                 "gpt2",
                                 "pythia-160m",
                                 "opt-125m",
                                 "opt-350m",
                                 "bloom-560m",
                                 "falcon-7b",
                                 "mpt-7b",
                                 "OLMo-2-1124-7B",
                                 "DeepSeek-V2-Lite",
                                 "DeepSeek-V3",
                                 "gpt-oss-20b",
                                 "Qwen3-Next-80B-A3B",
                                 "Nemotron-3-Nano-30B-A3B",
                                 "bert-base-uncased",
                                 "starcoder2-3b",
                                 "phi-2",
                                 "stablelm-2-1.6b",
                                 "granite-3.1-8b",
                                 "granite-3.0-3b-a800m",
                                 "OLMo-1B",
                                 "Olmo-3-7B",
                                 "OLMoE-1B-7B",
                                 "SmolLM3-3B",
                                 "Seed-OSS-36B",
                                 "GLM-4.5-Air",
                                 "GLM-4-9B-0414",
                                 "command-r7b",
                                 "command-r-35b",
                                 "ERNIE-4.5-21B-A3B",
                                 "ERNIE-4.5-0.3B",
                                 "distilbert-base-uncased",
                                 "EXAONE-4.0-32B",
                                 "dots.llm1",
                                 "Hunyuan-7B",
                                 "Minitron-4B",
                                 "Llama-4-Scout-17B-16E",
                                 "Phi-3.5-MoE",
                                 "MiniMax-M2",
                                 "GLM-4.7-Flash",
                                 "AFM-4.5B",
                                 "starcoderbase",
                                 "gpt-j-6b",
                                 "ModernBERT-base",
                                 "mt5-base",
                                 "roberta-base",
                                 "t5-base",
                                 "vit-base-patch16-224"}) {
    const bool image = name.starts_with("vit");
    const Model model = read(name, {.sequence = image ? 0 : 64});
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::bf16_pure}) {
      const MemoryTape tape = memory_tape(model, {.precision = precision, .batch = 2});
      std::vector<int> held(tape.tensors.size(), 0);
      const auto play = [&](const std::vector<TapeEvent>& events) {
        for (const TapeEvent& event : events) held[event.tensor] += event.takes ? 1 : -1;
      };
      for (const UnitTape& unit : tape.units) play(unit.forward);
      for (auto unit = tape.units.rbegin(); unit != tape.units.rend(); ++unit) play(unit->backward);
      std::size_t gradients = 0;
      for (std::size_t i = 0; i < held.size(); ++i) {
        const bool stays = tape.tensors[i].role == TensorRole::parameter_gradient;
        gradients += stays ? 1 : 0;
        BOOST_REQUIRE_MESSAGE(held[i] == (stays ? 1 : 0), name << ", tensor " << i);
      }
      std::size_t parameters = 0;
      for (const Unit& unit : model.units) parameters += unit.tensors.size();
      BOOST_TEST(gradients == parameters, name);
    }
  }
}

/// Llama 4 norms the heads that it rotates, and no norm has weights.
BOOST_AUTO_TEST_CASE(heads_that_are_rotated_are_normed_without_weights) {
  TransformerShape t = small_shape();
  const Model without = build_transformer(t, {.sequence = 256});
  t.head_norm = HeadNorm::rotated_heads;
  t.unrotated = {false, true, false, true};
  const Model half = build_transformer(t, {.sequence = 256});
  BOOST_TEST(half.parameters() == without.parameters());
  t.unrotated = {};
  const Model all = build_transformer(t, {.sequence = 256});
  const auto norms = [](const Model& model) {
    std::size_t count = 0;
    for (const Unit& unit : model.units)
      count += static_cast<std::size_t>(
          std::ranges::count(unit.layers, LayerKind::head_norm, &Layer::kind));
    return count;
  };
  BOOST_TEST(norms(half) == 2u);
  BOOST_TEST(norms(all) == 4u);
}

/// Gemma scales in fp32: beside the 16 bits that Llama keeps of each norm's product, 2 bytes more.
/// Its capped scores keep tanh's 16 bits, a softmax in fp32 and that in 16 bits.
BOOST_AUTO_TEST_CASE(gemma_2_keeps_eight_bytes_of_each_pair_and_wide_products_of_norms) {
  const auto kept_of = [](NormForm form, double softcap, bool flash) {
    TransformerShape t = small_shape();
    t.norm_form = form;
    t.softcap = softcap;
    const Model model = build_transformer(t, {.sequence = 256, .flash_attention = flash});
    return kept(memory_tape(model, {.precision = Precision::bf16_pure, .batch = 1}));
  };
  const double norms = 9, pairs = 4.0 * 4 * 256 * 256;
  BOOST_TEST(kept_of(NormForm::wide, 0, true) - kept_of(NormForm::usual, 0, true) ==
             norms * 256 * 64 * 2);
  BOOST_TEST(kept_of(NormForm::usual, 50, false) - kept_of(NormForm::usual, 0, false) == pairs * 2);
  const double fused = kept_of(NormForm::usual, 0, true);
  const double eager = kept_of(NormForm::usual, 50, true);
  BOOST_TEST(eager - fused > pairs * 7.9);
  BOOST_TEST(eager - fused < pairs * 8.1);
}

/// Beside 16 bits of what goes in and of what comes out: OLMo's norms keep fp32 of what goes in,
/// Cohere's two differences and a product in fp32.
BOOST_AUTO_TEST_CASE(layer_norms_that_are_written_out_keep_more) {
  const auto kept_of = [](NormForm form) {
    TransformerShape t = small_shape();
    t.norm = NormKind::layer_norm;
    t.norm_bias = false;
    t.norm_form = form;
    const Model model = build_transformer(t, {.sequence = 256});
    return kept(memory_tape(model, {.precision = Precision::bf16_pure, .batch = 1}));
  };
  const double elements = 9.0 * 256 * 64, usual = kept_of(NormForm::usual);
  BOOST_TEST(kept_of(NormForm::plain) - usual == 2 * elements);
  const double written = (kept_of(NormForm::written_out) - usual) / elements;
  BOOST_TEST(std::abs(written / 10 - 1) < 0.01, written);
}

/// Its input, its weight and nothing else in fp32, of each block; not under autocast.
BOOST_AUTO_TEST_CASE(a_router_in_fp32_keeps_copies_of_what_it_multiplies) {
  const auto kept_of = [](bool wide, Precision precision) {
    TransformerShape t = small_shape();
    t.experts = Experts{.count = 8, .active = 2, .width = 32, .shared_width = 32};
    t.experts->router.wide = wide;
    const Model model = build_transformer(t, {.sequence = 256});
    return kept(memory_tape(model, {.precision = precision, .batch = 1}));
  };
  const auto more = [&](Precision precision) {
    return kept_of(true, precision) - kept_of(false, precision);
  };
  BOOST_TEST(more(Precision::bf16_pure) == 4.0 * 4 * (256 * 64 + 8 * 64));
  BOOST_TEST(more(Precision::bf16) == 0);
}

/// Cohere 2's layers without a window do not rotate; SmolLM 3's are listed.
BOOST_AUTO_TEST_CASE(layers_that_do_not_rotate_are_told_apart) {
  for (const std::string name : {"command-r7b", "SmolLM3-3B", "EXAONE-4.0-32B"}) {
    const TransformerShape t = shape_of(name);
    for (std::int64_t block = 0; block < t.layers; ++block)
      BOOST_TEST(t.rotates(block) == (block % 4 != 3), name);
  }
  BOOST_TEST(shape_of("Olmo-3-7B").rotates(3));
  BOOST_TEST(!shape_of("Olmo-3-7B").slides(3));
  BOOST_TEST(shape_of("Olmo-3-7B").slides(2));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
