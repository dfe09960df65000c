#pragma once

#include <string>
#include <vector>

#include "model/model.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// The networks of the simulator that can be built for real: same names, same units, same parameter
/// tensors in the same order (torchvision's, where torchvision has the network).
const std::vector<std::string>& chain_names();

/// The shape with the network's defaults filled in. Throws as build_chain does.
ModelShape filled_shape(const std::string& name, ModelShape shape);

/// InputError that names the option and its remedy if the network does not train with so few
/// samples at a time. Throws as filled_shape does.
void check_batch(const std::string& name, const ModelShape& shape, std::int64_t batch,
                 const std::string& option);

/// Builds one, on the CPU in fp32, in training mode; weights come from torch's default generator.
/// `shape` as build_architecture takes it. Throws std::invalid_argument as build_architecture does.
Chain build_chain(const std::string& name, const ModelShape& shape);

// One function per network, in <family>.cpp. The shape has its defaults filled in.
Chain vgg16_chain(const ModelShape& shape);
Chain resnet50_chain(const ModelShape& shape);
Chain densenet121_chain(const ModelShape& shape);
Chain efficientnet_v2_l_chain(const ModelShape& shape);
Chain convnext_large_chain(const ModelShape& shape);
Chain small_cnn_chain(const ModelShape& shape);
Chain small_mlp_chain(const ModelShape& shape);

/// A transformer of any size.
struct TransformerSize {
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 12;  ///< Llama only: fewer than `heads` is grouped queries
  std::int64_t feed_forward = 3072;
  std::int64_t vocabulary = 50257;
  std::int64_t positions = 1024;  ///< rows of the position table (GPT-2, BERT)
  int blocks = 12;
  double dropout = 0.1;  ///< GPT-2 and BERT; 0 where runs are to be compared
};
Chain gpt2_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape);
Chain bert_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape);
Chain llama_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape);

}  // namespace rehearse::inline calibrate
