// FLOPs against what torchvision documents and against closed forms.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "model/model.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(flops_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kRelative = 1e-9;

void check_close(double value, double expected) {
  BOOST_TEST(std::abs(value / expected - 1) < kRelative, value << " is not " << expected);
}

double forward_flops(const Unit& unit) {
  double sum = 0;
  for (const Operator& op : unit.operators) sum += op.forward_flops;
  return sum;
}

double forward_flops(const Model& model) {
  double sum = 0;
  for (const Unit& unit : model.units) sum += forward_flops(unit);
  return sum;
}

double backward_flops(const Model& model) {
  return model.flops_per_sample() - forward_flops(model);
}

const std::vector<std::string> kNetworks = {"vgg16", "resnet50", "densenet121", "efficientnet_v2_l",
                                            "convnext_large"};
// torchvision's documentation of each network's weights, "GFLOPS": multiply-adds, printed with two
// decimals.
const std::vector<double> kGigaMultiplyAdds = {15.47, 4.09, 2.83, 56.08, 34.36};

BOOST_DATA_TEST_CASE(forward_flops_are_those_that_torchvision_documents,
                     data::make(kNetworks) ^ kGigaMultiplyAdds, name, documented) {
  const double counted = forward_flops(build_architecture(name, {})) / 2e9;
  BOOST_TEST(std::abs(counted - documented) <= 0.005, counted << " is not " << documented);
}

BOOST_DATA_TEST_CASE(backward_is_twice_forward_but_for_the_images_gradient, data::make(kNetworks),
                     name) {
  const Model model = build_architecture(name, {});
  double first = 0;
  for (const Operator& op : model.units.front().operators) {
    if (first == 0) first = op.forward_flops;
  }
  check_close(backward_flops(model), 2 * forward_flops(model) - first);
}

BOOST_AUTO_TEST_CASE(convolutions_grow_with_the_image_and_linear_layers_do_not) {
  const Model small = build_architecture("vgg16", {.image = 224});
  const Model large = build_architecture("vgg16", {.image = 448});
  for (std::size_t i = 0; i < 13; ++i) {
    check_close(forward_flops(large.units[i]), 4 * forward_flops(small.units[i]));
  }
  for (std::size_t i = 13; i < 16; ++i) {
    check_close(forward_flops(large.units[i]), forward_flops(small.units[i]));
  }
}

BOOST_AUTO_TEST_CASE(depthwise_convolutions_have_their_own_kind) {
  // ConvNeXt: 7x7 on every channel and position, a multiply-add counting 2.
  const Model model = build_architecture("convnext_large", {});
  const double positions = 192 * 56 * 56;
  const Operator& op = model.units.at(1).operators.at(1);  // after autocast's cast
  BOOST_TEST((op.kind == OperatorKind::depthwise_convolution));
  check_close(op.forward_flops, 2 * 49 * positions);
  check_close(op.parameter_elements, 49 * 192);
}

/// 6 N per token for the N weights in products, and 12 L h s for attention (PaLM, arXiv:2204.02311,
/// appendix B).
double transformer_flops(double weights, double layers, double width, double tokens) {
  return tokens * (6 * weights + 12 * layers * width * tokens);
}

BOOST_DATA_TEST_CASE(gpt2_takes_6_n_per_token_and_the_attention, data::make({1, 128, 1024}),
                     tokens) {
  const double h = 768;
  const double weights = 12 * 12 * h * h + 50257 * h;
  check_close(build_architecture("gpt2", {.sequence = tokens}).flops_per_sample(),
              transformer_flops(weights, 12, h, tokens));
}

BOOST_DATA_TEST_CASE(llama_7b_takes_6_n_per_token_and_the_attention, data::make({512, 4096, 32768}),
                     tokens) {
  const double h = 4096;
  const double norms = 65 * h;
  const double weights = 6738415616.0 - norms - 32000 * h;  // the embedding multiplies nothing
  check_close(build_architecture("llama_7b", {.sequence = tokens}).flops_per_sample(),
              transformer_flops(weights, 32, h, tokens));
}

BOOST_DATA_TEST_CASE(bert_multiplies_only_masked_tokens_by_its_vocabulary,
                     data::make({128, 512}) ^ data::make({20, 80}), tokens, masked) {
  const double h = 1024;
  const double head = 6 * (masked * (h * h + 30522 * h) + (h * h + 2 * h));
  check_close(build_architecture("bert_large", {.sequence = tokens}).flops_per_sample(),
              transformer_flops(24 * 12 * h * h, 24, h, tokens) + head);
}

const std::vector<std::string> kTransformers = {"bert_large", "gpt2", "llama_7b", "llama_70b"};

BOOST_DATA_TEST_CASE(flash_attention_changes_traffic_and_not_flops, data::make(kTransformers),
                     name) {
  const Model flash = build_architecture(name, {});
  const Model plain = build_architecture(name, {.flash_attention = false});
  check_close(plain.flops_per_sample(), flash.flops_per_sample());
  const auto traffic = [](const Unit& unit) {
    double sum = 0;
    for (const Operator& op : unit.operators) sum += op.forward_elements;
    return sum;
  };
  BOOST_TEST(traffic(plain.units.at(1)) > traffic(flash.units.at(1)));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
