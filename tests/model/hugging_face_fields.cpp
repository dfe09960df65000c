// The fields of a config.json: which are refused, and how, and where the language model stands.
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "model/hugging_face/hugging_face.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(hugging_face_fields_test)
namespace {

std::string refusal(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("rehearse_config_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << text;
  std::string message = "accepted";
  try {
    read_hugging_face(file);
  } catch (const InputError& error) {
    message = error.what();
    message.erase(0, message.find(".json:") + 6);
  }
  std::filesystem::remove(file);
  return message;
}

const std::string kSizes =
    ", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"vocab_size\": 100";
const std::string kLlama = "\"model_type\": \"llama\"" + kSizes;

BOOST_AUTO_TEST_CASE(what_might_change_shapes_is_never_ignored) {
  BOOST_TEST(refusal("{" + kLlama + "}") == "accepted");
  const std::string unknown = refusal("{" + kLlama + ", \"num_memory_blocks\": 3}");
  BOOST_TEST(unknown.starts_with(
                 "1:139: error: num_memory_blocks: no field of llama that is known here: it might "
                 "change shapes\n"),
             unknown);
  const std::string family = refusal("{\"model_type\": \"lama\"}");
  BOOST_TEST(family.starts_with("1:16: error: model_type: no family \"lama\"\n"), family);
  BOOST_TEST(family.find("did you mean \"llama\"?") != std::string::npos, family);
}

std::vector<std::string> assumptions(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("rehearse_lenient_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << text;
  std::vector<std::string> said = read_hugging_face(file).assumptions;
  std::filesystem::remove(file);
  return said;
}

// A number or a list that nobody knows is refused; what is off, or a word, is said and left out.
BOOST_AUTO_TEST_CASE(what_is_off_or_a_word_is_noted_and_left_out) {
  for (const char* field :
       {"\"memory_blocks\": 0", "\"memory_dropout\": 0.0", "\"memory_bias\": false",
        "\"memory_kinds\": []", "\"memory_map\": {}", "\"memory_flavour\": \"plain\""}) {
    const std::vector<std::string> said = assumptions("{" + kLlama + ", " + field + "}");
    BOOST_TEST_REQUIRE(said.size() == 1, field);
    BOOST_TEST(said.front().starts_with("the field memory_"), said.front());
  }
  for (const char* field : {"\"memory_blocks\": 2", "\"memory_bias\": true",
                            "\"memory_kinds\": [1]", "\"hiden_act\": \"silu\""})
    BOOST_TEST(
        refusal("{" + kLlama + ", " + field + "}").find("might change shapes") != std::string::npos,
        field);
}

BOOST_AUTO_TEST_CASE(an_unknown_familys_remedy_has_the_files_own_numbers) {
  const std::string message = refusal(
      "{\"model_type\": \"rwkv7\", \"d_model\": 96, \"num_hidden_layers\": 7, "
      "\"num_key_value_heads\": 2, \"vocab_size\": 1234}");
  BOOST_TEST(
      message.find("{layers: 7, hidden_size: 96, kv_heads: 2, vocab_size: 1234}} with heads, "
                   "intermediate_size, which the file does not say") != std::string::npos,
      message);
}

BOOST_AUTO_TEST_CASE(networks_of_another_kind_have_no_remedy_of_a_language_model) {
  for (const char* config :
       {R"({"model_type": "swin", "embed_dim": 96, "depths": [2, 2, 6, 2], "image_size": 224})",
        R"({"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "vocab_size": 51866})",
        R"({"model_type": "clip", "text_config": {"hidden_size": 768}, "vision_config": {}})",
        R"({"_class_name": "FluxTransformer2DModel", "num_layers": 19})"}) {
    const std::string message = refusal(config);
    const bool of_diffusers = message.find("_class_name") != std::string::npos;
    const char* const way =
        of_diffusers ? "rehearse_sim.capture reads" : "`rehearse capture FOLDER`";
    BOOST_TEST(message.find(way) != std::string::npos, message);
    BOOST_TEST(message.find("transformer: {") == std::string::npos, message);
    BOOST_TEST(message.find("_text\"") == std::string::npos, message);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_or_impossible_field_is_named) {
  BOOST_TEST(refusal("{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 4}")
                 .starts_with("1:1: error: the key \"n_layer\" is missing"));
  const std::string zero = refusal("{" + kLlama + ", \"head_dim\": 0}");
  BOOST_TEST(zero.find("head_dim") != std::string::npos, zero);
  const std::string groups = refusal("{" + kLlama + ", \"num_key_value_heads\": 3}");
  BOOST_TEST(
      groups.find("4 attention heads are no multiple of 3 key-value heads") != std::string::npos,
      groups);
}

/// With what transformers 5.17 writes beside the fields that its configs are made of.
std::string deepseek(const std::string& more) {
  return "{\"model_type\": \"deepseek_v2\", \"hidden_size\": 64, \"intermediate_size\": 128, "
         "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 100, "
         "\"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, "
         "\"v_head_dim\": 16, \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 32, " +
         more + "}";
}

std::string qwen_experts(const std::string& family, const std::string& more) {
  return "{\"model_type\": \"" + family + "\"" + kSizes +
         ", \"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, "
         "\"shared_expert_intermediate_size\": 32, " +
         more + "}";
}

BOOST_AUTO_TEST_CASE(fields_that_transformers_writes_twice_have_to_agree) {
  BOOST_TEST(refusal(deepseek("\"qk_head_dim\": 24, \"mlp_bias\": false")) == "accepted");
  BOOST_TEST(refusal(deepseek("\"num_local_experts\": 8")) == "accepted");
  const std::string head = refusal(deepseek("\"qk_head_dim\": 32"));
  BOOST_TEST(head.find("qk_head_dim: the other fields make it 24") != std::string::npos, head);
  const std::string bias = refusal(deepseek("\"mlp_bias\": true"));
  BOOST_TEST(bias.find("only mlp_bias: false is modelled") != std::string::npos, bias);
  const std::string experts = refusal(qwen_experts("qwen2_moe", "\"num_local_experts\": 9"));
  BOOST_TEST(experts.find("num_local_experts: the other fields make it 8") != std::string::npos,
             experts);
  BOOST_TEST(refusal(qwen_experts("qwen2_moe", "\"num_local_experts\": 8")) == "accepted");
}

BOOST_AUTO_TEST_CASE(a_window_that_no_layer_uses_may_be_anything) {
  const std::string none = "\"use_sliding_window\": false, \"sliding_window\": 0";
  const std::string zero = "\"use_sliding_window\": true, \"sliding_window\": 0";
  BOOST_TEST(refusal(qwen_experts("qwen2_moe", none)) == "accepted");
  BOOST_TEST(refusal(qwen_experts("qwen2_moe", zero)).find("sliding_window") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_composite_config_says_whether_its_weights_are_tied) {
  const std::string text =
      "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 64, "
      "\"intermediate_size\": 128, \"num_hidden_layers\": 2}";
  BOOST_TEST(refusal(text + ", \"tie_word_embeddings\": true}") == "accepted");
  BOOST_TEST(refusal(text + ", \"tie_word_embeddings\": 3}") != "accepted");
}

/// The shape that is read of a text, and what is assumed.
HuggingFaceModel accepted(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("rehearse_accepted_" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << text;
  const HuggingFaceModel model = read_hugging_face(file);
  std::filesystem::remove(file);
  return model;
}

BOOST_AUTO_TEST_CASE(of_images_and_text_the_language_model_is_read) {
  const HuggingFaceModel alone = accepted("{" + kLlama + "}");
  const HuggingFaceModel part =
      accepted("{\"model_type\": \"llava\", \"text_config\": {" + kLlama +
               "}, \"vision_config\": {\"hidden_size\": 7}, \"image_token_id\": 3}");
  BOOST_TEST(build_transformer(part.shape, {}).parameters() ==
             build_transformer(alone.shape, {}).parameters());
  BOOST_TEST(part.assumptions.back() ==
             "text_config alone: what encodes images or sound is left out");
  const HuggingFaceModel named =
      accepted("{\"model_type\": \"qwen3_vl\", \"text_config\": {\"vocab_size\": 100" +
               kSizes.substr(0, kSizes.rfind(", \"vocab")) + "}}");
  BOOST_TEST(named.shape.family == "qwen3_vl_text");
  const std::string unknown =
      refusal("{\"model_type\": \"llava\", \"text_config\": {" + kLlama + ", \"odd\": 1}}");
  BOOST_TEST(unknown.find("text_config.odd: no field of llama's text_config") != std::string::npos,
             unknown);
}

BOOST_AUTO_TEST_CASE(variants_that_no_description_states_are_refused) {
  const auto of = [](const std::string& family, const std::string& more) {
    return refusal("{\"model_type\": \"" + family + "\"" + kSizes + more + "}");
  };
  const std::vector<std::array<std::string, 3>> cases = {
      {"phi", "qk_layernorm", "true"},
      {"phi", "tie_word_embeddings", "true"},
      {"stablelm", "qk_layernorm", "true"},
      {"cohere", "use_qk_norm", "true"},
      {"olmo", "clip_qkv", "8.0"},
      {"olmoe", "clip_qkv", "8.0"},
      {"smollm3", "no_rope_layers", "[1]"},
      {"glm4_moe", "num_local_experts", "3"},
      {"ernie4_5_moe", "moe_capacity", "[64]"},
      {"llama4_text", "moe_layers", "[7]"},
      {"minimax_m2", "use_qk_norm", "false"},
      {"modernbert", "mlp_dropout", "0.1"},
      {"hunyuan_v1_moe", "moe_topk", "[1, 2]"},
      {"ernie4_5_moe", "moe_layer_interval", "0"}};
  for (const auto& [family, field, value] : cases) {
    const std::string more = ", \"moe_intermediate_size\": 32";
    const std::string experts =
        family.ends_with("moe") && family != "olmoe" && !family.starts_with("hunyuan") ? more : "";
    BOOST_TEST(of(family, experts) == "accepted", family);
    const std::string message = of(family, experts + ", \"" + field + "\": " + value);
    BOOST_TEST(message.find(field) != std::string::npos, family << ": " << message);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
