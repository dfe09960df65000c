#include "models/networks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

struct Network {
  std::string name;
  std::function<Chain(const ModelShape&)> build;
};

Network transformer(const std::string& name, const TransformerSize& size,
                    Chain (*build)(const std::string&, const TransformerSize&, const ModelShape&)) {
  return {name, [=](const ModelShape& shape) { return build(name, size, shape); }};
}

const std::vector<Network>& networks() {
  static const std::vector<Network> kAll = {
      {"vgg16", vgg16_chain},
      {"resnet50", resnet50_chain},
      {"densenet121", densenet121_chain},
      {"efficientnet_v2_l", efficientnet_v2_l_chain},
      {"convnext_large", convnext_large_chain},
      transformer("bert_large",
                  {.hidden = 1024,
                   .heads = 16,
                   .feed_forward = 4096,
                   .vocabulary = 30522,
                   .positions = 512,
                   .blocks = 24},
                  bert_chain),
      transformer("gpt2", {}, gpt2_chain),
      transformer("small_gpt2",
                  {.hidden = 64,
                   .heads = 4,
                   .feed_forward = 256,
                   .vocabulary = 256,
                   .positions = 256,
                   .blocks = 2,
                   .dropout = 0},
                  gpt2_chain),
      transformer("gpt2_xl", {.hidden = 1600, .heads = 25, .feed_forward = 6400, .blocks = 48},
                  gpt2_chain),
      transformer("llama_7b",
                  {.hidden = 4096,
                   .heads = 32,
                   .kv_heads = 32,
                   .feed_forward = 11008,
                   .vocabulary = 32000,
                   .blocks = 32},
                  llama_chain),
      transformer("llama_70b",
                  {.hidden = 8192,
                   .heads = 64,
                   .kv_heads = 8,
                   .feed_forward = 28672,
                   .vocabulary = 32000,
                   .blocks = 80},
                  llama_chain),
      transformer("small_llama",
                  {.hidden = 512,
                   .heads = 4,
                   .kv_heads = 2,
                   .feed_forward = 1376,
                   .vocabulary = 32000,
                   .blocks = 4},
                  llama_chain),
      {"small_cnn", small_cnn_chain},
      {"small_mlp", small_mlp_chain},
  };
  return kAll;
}

const Network& find_network(const std::string& name) {
  for (const Network& network : networks()) {
    if (network.name == name) return network;
  }
  throw std::invalid_argument(
      fmt::format("{} is not among the networks that can be trained here; these are {}", name,
                  fmt::join(chain_names(), ", ")));
}

/// The simulator's, of a network that can be built.
Model buildable(const std::string& name, const ModelShape& shape) {
  Model model = build_architecture(name, shape);
  find_network(name);
  return model;
}

}  // namespace

const std::vector<std::string>& chain_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Network& network : networks()) names.push_back(network.name);
    return names;
  }();
  return kNames;
}

// Read off the simulator's model: its last tensor is the bias of the classes.
ModelShape filled_shape(const std::string& name, ModelShape shape) {
  const Model model = buildable(name, shape);
  if (model.tokens_per_sample > 0) {
    shape.sequence = model.tokens_per_sample;
  } else {
    shape.image = std::llround(std::sqrt(model.input_elements / 3));
    shape.classes = model.units.back().tensors.back();
  }
  return shape;
}

void check_batch(const std::string& name, const ModelShape& shape, std::int64_t batch,
                 const std::string& option) {
  const Model model = buildable(name, shape);
  try {
    check_batch(model, batch);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: {}: {}\nremedy: {} 2 or more, or a larger --image", option,
                                 error.what(), option));
  }
}

Chain build_chain(const std::string& name, const ModelShape& shape) {
  return find_network(name).build(filled_shape(name, shape));
}

}  // namespace rehearse::inline calibrate
