// Parameter tensors of the built-in networks, against torchvision's own list and against sums by
// hand.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/model.hpp"
#include "torchvision_tensors.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(parameters_test)
namespace {

namespace data = boost::unit_test::data;

const std::vector<std::string> kAll = {
    "vgg16",     "resnet50",    "densenet121", "efficientnet_v2_l", "convnext_large", "bert_large",
    "gpt2",      "gpt2_xl",     "mpt_125m",    "mpt_350m",          "mpt_760m",       "mpt_1b",
    "mpt_3b",    "mpt_7b",      "mpt_13b",     "llama_7b",          "llama_70b",      "small_cnn",
    "small_mlp", "small_llama", "small_gpt2"};
const std::vector<std::int64_t> kCounts = {
    138357544,   25557032,   7978856,     118515272, 197767336,  336226108,  124439808,
    1557611200,  125311488,  355985408,   760470528, 1315950592, 2651837440, 6658859008,
    12853954560, 6738415616, 68976648192, 545098,    402250,     44372480,   132864};
const std::vector<std::string> kTorchvision = {"vgg16", "resnet50", "densenet121",
                                               "efficientnet_v2_l", "convnext_large"};
// Running means and variances, without num_batches_tracked.
const std::vector<std::int64_t> kBuffers = {0, 53120, 83648, 512576, 0};
const std::vector<std::size_t> kUnits = {16, 18, 63, 81, 41, 26, 14, 50, 14, 26, 26,
                                         26, 34, 34, 42, 34, 82, 4,  3,  6,  4};

std::vector<std::int64_t> all_tensors(const Model& model) {
  std::vector<std::int64_t> tensors;
  for (const Unit& unit : model.units) {
    tensors.insert(tensors.end(), unit.tensors.begin(), unit.tensors.end());
  }
  return tensors;
}

BOOST_DATA_TEST_CASE(parameters_are_counted_exactly, data::make(kAll) ^ kCounts, name, count) {
  BOOST_TEST(build_architecture(name, {}).parameters() == count);
}

// As mosaicml/llm-foundry counts them: positions as many as tokens.
BOOST_AUTO_TEST_CASE(mpt_has_a_position_for_every_token) {
  BOOST_TEST(build_architecture("mpt_125m", {.sequence = 512}).parameters() == 124131840);
  BOOST_TEST(build_architecture("mpt_125m", {.sequence = 65536}).parameters() == 174070272);
  BOOST_TEST(build_architecture("mpt_3b", {.sequence = 16384}).parameters() == 2688537600);
}

BOOST_DATA_TEST_CASE(tensors_are_torchvisions_in_its_order, data::make(kTorchvision), name) {
  const std::vector<std::int64_t> tensors = all_tensors(build_architecture(name, {}));
  BOOST_TEST(tensors == torchvision_tensors().at(name), boost::test_tools::per_element());
}

BOOST_DATA_TEST_CASE(buffers_are_torchvisions, data::make(kTorchvision) ^ kBuffers, name, count) {
  std::int64_t elements = 0;
  for (const Unit& unit : build_architecture(name, {}).units) elements += unit.buffer_elements;
  BOOST_TEST(elements == count);
}

BOOST_DATA_TEST_CASE(parameters_do_not_depend_on_the_image, data::make(kTorchvision), name) {
  BOOST_TEST(all_tensors(build_architecture(name, {.image = 97})) ==
             all_tensors(build_architecture(name, {})));
}

BOOST_DATA_TEST_CASE(units_are_the_blocks_that_one_would_wrap, data::make(kAll) ^ kUnits, name,
                     count) {
  const Model model = build_architecture(name, {});
  BOOST_TEST(model.units.size() == count);
  for (const Unit& unit : model.units) {
    BOOST_TEST(!unit.name.empty());
    BOOST_TEST(!unit.operators.empty());
  }
}

BOOST_AUTO_TEST_CASE(bert_large_is_bert_for_pre_training_with_30522_words) {
  const std::int64_t h = 1024;
  const std::int64_t norm = 2 * h;
  const std::int64_t embeddings = (30522 + 512 + 2) * h + norm;
  const std::int64_t layer = 4 * (h * h + h) + (4 * h * h + 4 * h) + (4 * h * h + h) + 2 * norm;
  const std::int64_t pooler = h * h + h;
  const std::int64_t masked_tokens = (h * h + h) + norm + 30522;  // the decoder's weight is tied
  const std::int64_t next_sentence = 2 * h + 2;
  const Model model = build_architecture("bert_large", {});
  BOOST_TEST(model.units.front().parameters() == embeddings);
  BOOST_TEST(model.units.at(1).parameters() == layer);
  BOOST_TEST(model.units.back().parameters() == pooler + masked_tokens + next_sentence);
  BOOST_TEST(embeddings + 24 * layer + pooler + masked_tokens + next_sentence == 336226108);
}

// torchvision's documentation of resnet101 and resnet152, and BERT-Base as BERT-Large by hand.
BOOST_AUTO_TEST_CASE(further_built_in_networks_are_counted_exactly) {
  BOOST_TEST(build_architecture("resnet101", {}).parameters() == 44549160);
  BOOST_TEST(build_architecture("resnet152", {}).parameters() == 60192808);
  BOOST_TEST(build_architecture("bert_base", {}).parameters() == 110106428);
  // 96 blocks of 12 h^2 + 13 h, the tables of tokens and positions, and the last norm.
  const std::int64_t h = 12288;
  BOOST_TEST(build_architecture("gpt3_175b", {}).parameters() ==
             96 * (12 * h * h + 13 * h) + (50257 + 2048) * h + 2 * h);
}

BOOST_AUTO_TEST_CASE(gpt2_has_no_parameters_for_its_tied_head) {
  const Model model = build_architecture("gpt2", {});
  BOOST_TEST(model.units.front().parameters() == (50257 + 1024) * 768);
  BOOST_TEST(model.units.back().parameters() == 2 * 768);
}

BOOST_AUTO_TEST_CASE(llama_70b_shares_keys_and_values_between_eight_queries) {
  const std::int64_t h = 8192;
  const std::int64_t f = 28672;
  const std::vector<std::int64_t> block = {h, h * h, h * h / 8, h * h / 8, h * h,
                                           h, h * f, h * f,     f * h};
  BOOST_TEST(build_architecture("llama_70b", {}).units.at(1).tensors == block,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(classes_change_only_the_last_layer) {
  BOOST_TEST(build_architecture("resnet50", {.classes = 10}).parameters() == 25557032 - 990 * 2049);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
