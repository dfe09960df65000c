// The networks that are measured are torchvision's and the literature's, and they learn. That their
// units are the simulator's is in measure_units.cpp.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "../model/torchvision_tensors.hpp"
#include "measure/host_threads.hpp"
#include "model/model.hpp"
#include "models/networks.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(models_tensors_test)
namespace {

namespace data = boost::unit_test::data;

const std::vector<std::string> kTorchvision = {"vgg16", "resnet50", "densenet121",
                                               "efficientnet_v2_l", "convnext_large"};
const std::vector<std::int64_t> kCounts = {138357544, 25557032, 7978856, 118515272, 197767336};

std::vector<std::int64_t> elements(const UnitModule& module) {
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& tensor : module.parameters()) sizes.push_back(tensor.numel());
  return sizes;
}

BOOST_DATA_TEST_CASE(tensors_are_torchvisions_in_its_order, data::make(kTorchvision) ^ kCounts,
                     name, count) {
  const Chain chain = build_chain(name, {});
  std::vector<std::int64_t> tensors;
  for (const torch::Tensor& tensor : parameters(chain)) tensors.push_back(tensor.numel());
  BOOST_TEST(tensors == torchvision_tensors().at(name), boost::test_tools::per_element());
  BOOST_TEST(parameter_count(chain) == count);
}

/// Llama of the given blocks, as small as its names and order allow.
const TransformerSize kTinyLlama = {
    .hidden = 32, .heads = 4, .kv_heads = 2, .feed_forward = 88, .vocabulary = 50, .blocks = 32};

BOOST_AUTO_TEST_CASE(llamas_units_are_the_simulators_at_any_size) {
  const Chain chain = llama_chain("tiny", kTinyLlama, {.sequence = 8});
  const Model model = build_architecture("llama_7b", {});
  BOOST_REQUIRE(chain.units.size() == model.units.size());
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    BOOST_TEST(chain.units[i].name == model.units[i].name);
    BOOST_TEST(elements(*chain.units[i].module).size() == model.units[i].tensors.size());
  }
  const std::int64_t h = 32, f = 88;
  const std::vector<std::int64_t> block = {h, h * h, h * h / 2, h * h / 2, h * h,
                                           h, h * f, h * f,     f * h};
  BOOST_TEST(elements(*chain.units[1].module) == block, boost::test_tools::per_element());
}

TransformerSize tiny(int blocks) {
  return {.hidden = 32,
          .heads = 4,
          .kv_heads = 4,
          .feed_forward = 64,
          .vocabulary = 50,
          .positions = 16,
          .blocks = blocks,
          .dropout = 0};
}

/// A small one of every kind, over inputs that are small for it.
Chain small_chain(const std::string& kind) {
  const TransformerSize size = tiny(2);
  if (kind == "gpt2") return gpt2_chain("tiny", size, {.sequence = 8});
  if (kind == "bert") return bert_chain("tiny", size, {.sequence = 8});
  if (kind == "llama") return llama_chain("tiny", size, {.sequence = 8});
  return build_chain(kind, {.image = kind == "small_cnn" || kind == "small_mlp" ? 16 : 32});
}

BOOST_DATA_TEST_CASE(every_network_learns_one_batch,
                     data::make({"small_cnn", "small_mlp", "gpt2", "bert", "llama", "resnet50"}),
                     kind) {
  set_host_threads(1);  // how it learns depends on the order of sums
  torch::manual_seed(1);
  const Chain chain = small_chain(kind);
  const Batch batch = random_batch(chain.input, 4, torch::kCPU);
  torch::optim::SGD optimizer(parameters(chain), torch::optim::SGDOptions(0.05));
  double first = 0, last = 0;
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = forward_loss(chain, batch);
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  BOOST_TEST(std::isfinite(last));
  BOOST_TEST(last < 0.95 * first);
}

BOOST_DATA_TEST_CASE(every_parameter_of_every_unit_gets_a_gradient,
                     data::make({"small_cnn", "gpt2", "bert", "llama", "densenet121"}), kind) {
  torch::manual_seed(1);
  const Chain chain = small_chain(kind);
  forward_loss(chain, random_batch(chain.input, 2, torch::kCPU)).backward();
  for (const torch::Tensor& parameter : parameters(chain)) BOOST_TEST(parameter.grad().defined());
  zero_gradients(chain);
  for (const torch::Tensor& parameter : parameters(chain)) BOOST_TEST(!parameter.grad().defined());
}

BOOST_DATA_TEST_CASE(fused_and_materialised_attention_agree, data::make({"gpt2", "llama"}), kind) {
  const TransformerSize size = tiny(1);
  double losses[2] = {0, 0};
  for (const bool flash : {false, true}) {
    torch::manual_seed(3);
    const ModelShape shape{.sequence = 8, .flash_attention = flash};
    const Chain chain = std::string(kind) == "gpt2" ? gpt2_chain("tiny", size, shape)
                                                    : llama_chain("tiny", size, shape);
    move_to(chain, torch::kFloat64);
    torch::manual_seed(4);
    losses[flash ? 1 : 0] =
        forward_loss(chain, random_batch(chain.input, 2, torch::kCPU)).item<double>();
  }
  BOOST_TEST(losses[0] == losses[1], boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(impossible_shapes_are_refused_as_the_simulator_refuses_them) {
  BOOST_CHECK_THROW(build_chain("resnet50", {.image = 8}), std::invalid_argument);
  BOOST_CHECK_THROW(build_chain("small_cnn", {.sequence = 8}), std::invalid_argument);
  BOOST_CHECK_THROW(build_chain("resnet51", {}), std::invalid_argument);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
