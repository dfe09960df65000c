// What a user may ask of an architecture, and what they are told where it does not suit.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "model/model.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(shapes_test)
namespace {

namespace data = boost::unit_test::data;

const std::vector<std::string> kImageNetworks = {"vgg16", "resnet50", "densenet121",
                                                 "efficientnet_v2_l", "convnext_large"};

std::string message_of(const std::string& name, const ModelShape& shape) {
  try {
    build_architecture(name, shape);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(impossible_shapes_are_explained) {
  BOOST_TEST(message_of("resnet50", {.image = 31}) ==
             "resnet50 needs images of at least 32 pixels per side; got 31");
  BOOST_TEST(message_of("vgg16", {.image = -224}) ==
             "vgg16 needs images of at least 32 pixels per side; got -224");
  BOOST_TEST(message_of("vgg16", {.sequence = 128}) ==
             "vgg16 takes images, not sequences: give it an image size");
  BOOST_TEST(message_of("densenet121", {.classes = -1}) ==
             "densenet121 needs a positive number of classes; got -1");
  BOOST_TEST(message_of("gpt2", {.image = 224}) ==
             "gpt2 takes sequences, not images: give it a sequence length");
  BOOST_TEST(message_of("gpt2_xl", {.sequence = 1025}) ==
             "gpt2_xl has positions for at most 1024 tokens; got 1025");
  BOOST_TEST(message_of("bert_large", {.sequence = 513}) ==
             "bert_large has positions for at most 512 tokens; got 513");
  BOOST_TEST(message_of("llama_7b", {.sequence = -1}) ==
             "llama_7b needs a positive sequence length; got -1");
  BOOST_TEST(message_of("gpt2", {.channels_last = true}) ==
             "gpt2 has no images to lay out channels-last");
  BOOST_TEST(message_of("llama_7b", {.classes = 10}) ==
             "llama_7b has no classes: its vocabulary is fixed");
}

// PyTorch: "Expected more than 1 value per channel when training, got input size [1, 512, 1, 1]".
BOOST_AUTO_TEST_CASE(a_batch_norm_over_one_value_does_not_train) {
  const auto problem = [](const std::string& name, std::int64_t side, std::int64_t batch) {
    try {
      check_batch(build_architecture(name, {.image = side}), batch);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  BOOST_TEST(problem("resnet50", 32, 1) ==
             "resnet50 on a 3x32x32 image trains with at least 2 samples at a time, for in "
             "layer4.0 a batch norm sees one value of each channel; got 1");
  for (const char* name : {"densenet121", "efficientnet_v2_l"}) {
    BOOST_TEST(problem(name, 32, 1) != "none");
    BOOST_TEST(problem(name, 32, 2) == "none");
    BOOST_TEST(problem(name, 64, 1) == "none");
  }
  for (const char* name : {"vgg16", "convnext_large"}) BOOST_TEST(problem(name, 32, 1) == "none");
  check_batch(build_architecture("gpt2", {.sequence = 1}), 1);
}

BOOST_AUTO_TEST_CASE(unknown_architectures_are_answered_with_the_known_ones) {
  BOOST_TEST(message_of("resnet51", {}) ==
             "unknown architecture \"resnet51\"; known are vgg16, resnet50, resnet101, resnet152, "
             "densenet121, efficientnet_v2_l, convnext_large, bert_base, bert_large, gpt2, "
             "gpt2_xl, small_gpt2, mpt_125m, mpt_350m, mpt_760m, mpt_1b, mpt_3b, mpt_7b, mpt_13b, "
             "llama_7b, "
             "llama_70b, small_llama, gpt2_medium, gpt2_large, gpt3_175b, llama_3_8b, "
             "llama_3_70b, llama_3_405b, mistral_7b, mixtral_8x7b, mixtral_8x22b, qwen2_5_7b, "
             "qwen2_5_72b, qwen3_8b, qwen3_32b, qwen3_30b_a3b, qwen3_235b_a22b, "
             "qwen3_next_80b_a3b, nemotron_3_nano_30b_a3b, deepseek_v3, gpt_oss_120b, t5_11b, "
             "vit_l_16, vit_h_14, small_cnn, small_mlp");
}

BOOST_DATA_TEST_CASE(every_image_from_the_smallest_on_can_be_built,
                     data::make(kImageNetworks) * data::make({32, 33, 97, 225, 1024}), name, side) {
  const Model model = build_architecture(name, {.image = side});
  BOOST_TEST(model.input_elements == 3.0 * side * side);
  BOOST_TEST(model.flops_per_sample() > 0);
  BOOST_TEST(model.tokens_per_sample == 0);
}

BOOST_AUTO_TEST_CASE(defaults_are_the_architectures_own) {
  BOOST_TEST(build_architecture("efficientnet_v2_l", {}).sample == "3x480x480 image");
  BOOST_TEST(build_architecture("resnet50", {}).sample == "3x224x224 image");
  BOOST_TEST(build_architecture("bert_large", {}).sample == "sequence of 128 tokens");
  BOOST_TEST(build_architecture("llama_70b", {}).tokens_per_sample == 4096);
}

BOOST_AUTO_TEST_CASE(each_architecture_describes_itself_in_one_line) {
  BOOST_TEST(describe_architecture("resnet50") ==
             "ResNet-50 (He et al. 2016), 25.6 M parameters, 224x224");
  for (const std::string& name : architecture_names()) {
    BOOST_TEST(describe_architecture(name).find('\n') == std::string::npos);
    BOOST_TEST(!build_architecture(name, {}).source.empty());
    BOOST_TEST(build_architecture(name, {}).name == name);
  }
}

BOOST_AUTO_TEST_CASE(precisions_are_read_as_they_are_written) {
  for (const std::string& name : precision_names()) {
    BOOST_TEST(to_string(parse_precision(name)) == name);
  }
  BOOST_CHECK_EXCEPTION(parse_precision("fp4"), std::invalid_argument, [](const auto& error) {
    return std::string(error.what()) ==
           "expected a precision, one of fp32, tf32, bf16, fp16, bf16_pure, bf16_master, "
           "fp16_master, bf16_pure_autocast, fp8, mxfp8, nvfp4; got \"fp4\"";
  });
}

BOOST_AUTO_TEST_CASE(autocast_halves_activations_and_not_parameters) {
  BOOST_TEST(parameter_element(Precision::fp32).value() == 4);
  BOOST_TEST(parameter_element(Precision::bf16).value() == 4);
  BOOST_TEST(parameter_element(Precision::bf16_pure).value() == 2);
  BOOST_TEST(activation_element(Precision::tf32).value() == 4);
  BOOST_TEST(activation_element(Precision::fp16).value() == 2);
  BOOST_TEST(activation_element(Precision::bf16_pure).value() == 2);
  BOOST_TEST(is_autocast(Precision::fp16));
  BOOST_TEST(!is_autocast(Precision::bf16_pure));
}

BOOST_AUTO_TEST_CASE(master_weights_are_the_optimizers_affair) {
  BOOST_TEST(has_master_weights(Precision::bf16_master));
  BOOST_TEST(!has_master_weights(Precision::bf16_pure));
  BOOST_TEST((computed_in(Precision::bf16_master) == Precision::bf16_pure));
  BOOST_TEST((computed_in(Precision::fp16_master) == Precision::fp16_pure));
  BOOST_TEST((computed_in(Precision::bf16) == Precision::bf16));
  BOOST_TEST(parameter_element(Precision::bf16_master).value() == 2);
}

BOOST_AUTO_TEST_CASE(bf16_parameters_may_stand_under_autocast) {
  BOOST_TEST(is_autocast(Precision::bf16_pure_autocast));
  BOOST_TEST(parameter_element(Precision::bf16_pure_autocast).value() == 2);
  BOOST_TEST(activation_element(Precision::bf16_pure_autocast).value() == 2);
}

BOOST_AUTO_TEST_CASE(only_causal_language_models_shift_their_logits) {
  for (const std::string name : {"gpt2", "mpt_125m", "llama_7b", "small_llama"})
    BOOST_TEST(build_architecture(name, {.loss = Loss::huggingface}).variant == "loss huggingface");
  for (const std::string name : {"bert_large", "resnet50", "small_mlp"})
    BOOST_CHECK_THROW(build_architecture(name, {.loss = Loss::huggingface}), std::invalid_argument);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
