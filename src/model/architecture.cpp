#include "model/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace rehearse {
namespace {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> kAll = {
      {"vgg16", "VGG-16 (Simonyan and Zisserman 2014), 138.4 M parameters, 224x224", build_vgg16},
      {"resnet50", "ResNet-50 (He et al. 2016), 25.6 M parameters, 224x224", build_resnet50},
      {"densenet121", "DenseNet-121 (Huang et al. 2017), 8.0 M parameters, 224x224",
       build_densenet121},
      {"efficientnet_v2_l", "EfficientNetV2-L (Tan and Le 2021), 118.5 M parameters, 480x480",
       build_efficientnet_v2_l},
      {"convnext_large", "ConvNeXt-Large (Liu et al. 2022), 197.8 M parameters, 224x224",
       build_convnext_large},
      {"bert_large",
       "BERT-Large with its pre-training heads (Devlin et al. 2018), 336.2 M parameters, 128 "
       "tokens",
       build_bert_large},
      {"gpt2", "GPT-2 small (Radford et al. 2019), 124.4 M parameters, 1024 tokens", build_gpt2},
      {"gpt2_xl", "GPT-2 XL (Radford et al. 2019), 1.56 B parameters, 1024 tokens", build_gpt2_xl},
      {"mpt_125m", "MPT 125m (MosaicML, llm-foundry), 125.3 M parameters, 2048 tokens",
       build_mpt_125m},
      {"mpt_350m", "MPT 350m (MosaicML, llm-foundry), 356.0 M parameters, 2048 tokens",
       build_mpt_350m},
      {"mpt_760m", "MPT 760m (MosaicML, llm-foundry), 760.5 M parameters, 2048 tokens",
       build_mpt_760m},
      {"mpt_1b", "MPT 1b (MosaicML, llm-foundry), 1.32 B parameters, 2048 tokens", build_mpt_1b},
      {"mpt_3b", "MPT 3b (MosaicML, llm-foundry), 2.65 B parameters, 2048 tokens", build_mpt_3b},
      {"mpt_7b", "MPT 7b (MosaicML, llm-foundry), 6.66 B parameters, 2048 tokens", build_mpt_7b},
      {"mpt_13b", "MPT 13b (MosaicML, llm-foundry), 12.85 B parameters, 2048 tokens",
       build_mpt_13b},
      {"llama_7b", "Llama 2 7B (Touvron et al. 2023), 6.74 B parameters, 4096 tokens",
       build_llama_7b},
      {"llama_70b", "Llama 2 70B (Touvron et al. 2023), 69.0 B parameters, 4096 tokens",
       build_llama_70b},
      {"small_llama",
       "Four blocks as Llama 2's with grouped queries, 44.4 M parameters, 4096 tokens",
       build_small_llama},
      {"small_cnn", "Two convolutions and two linear layers, 545 k parameters, 32x32, 10 classes",
       build_small_cnn},
      {"small_mlp", "Three linear layers, 402 k parameters, 32x32, 10 classes", build_small_mlp},
  };
  return kAll;
}

const Architecture& find_architecture(const std::string& name) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return architecture;
  }
  throw std::invalid_argument(fmt::format("unknown architecture \"{}\"; known are {}", name,
                                          fmt::join(architecture_names(), ", ")));
}

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

}  // namespace

const std::vector<std::string>& architecture_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(architectures().size());
    for (const Architecture& architecture : architectures()) names.push_back(architecture.name);
    return names;
  }();
  return kNames;
}

std::string describe_architecture(const std::string& name) {
  return find_architecture(name).description;
}

Model build_architecture(const std::string& name, const ModelShape& shape) {
  Model model = find_architecture(name).build(shape);
  require(shape.loss == Loss::cross_entropy || is_causal_language_model(model),
          fmt::format("{} is no causal language model: its loss shifts no logits", name));
  return model;
}

bool is_causal_language_model(const Model& model) {
  const std::vector<Layer>& last = model.units.back().layers;
  return model.tokens_per_sample > 0 && !last.empty() &&
         last.back().kind == LayerKind::cross_entropy &&
         last.back().in.positions() == model.tokens_per_sample;
}

void check_batch(const Model& model, std::int64_t batch) {
  const auto norms_one_value = [&](const Layer& layer) {
    return layer.kind == LayerKind::batch_norm && layer.in.positions() * batch < 2;
  };
  for (const Unit& unit : model.units)
    require(std::ranges::none_of(unit.layers, norms_one_value),
            fmt::format("{} on a {} trains with at least 2 samples at a time, for in {} a batch "
                        "norm sees one value of each channel; got {}",
                        model.name, model.sample, unit.name, batch));
}

ModelShape image_shape(const ModelShape& shape, const ImageDefaults& defaults) {
  require(shape.sequence == 0,
          fmt::format("{} takes images, not sequences: give it an image size", defaults.name));
  require(shape.classes >= 0, fmt::format("{} needs a positive number of classes; got {}",
                                          defaults.name, shape.classes));
  ModelShape filled = shape;
  if (filled.image == 0) filled.image = defaults.side;
  if (filled.classes == 0) filled.classes = 1000;
  require(filled.image >= defaults.smallest,
          fmt::format("{} needs images of at least {} pixels per side; got {}", defaults.name,
                      defaults.smallest, filled.image));
  return filled;
}

ModelShape sequence_shape(const ModelShape& shape, const SequenceDefaults& defaults) {
  require(shape.image == 0,
          fmt::format("{} takes sequences, not images: give it a sequence length", defaults.name));
  require(!shape.channels_last,
          fmt::format("{} has no images to lay out channels-last", defaults.name));
  require(shape.classes == 0,
          fmt::format("{} has no classes: its vocabulary is fixed", defaults.name));
  ModelShape filled = shape;
  if (filled.sequence == 0) filled.sequence = defaults.tokens;
  require(filled.sequence > 0, fmt::format("{} needs a positive sequence length; got {}",
                                           defaults.name, filled.sequence));
  require(defaults.most == 0 || filled.sequence <= defaults.most,
          fmt::format("{} has positions for at most {} tokens; got {}", defaults.name,
                      defaults.most, filled.sequence));
  return filled;
}

Activation image_input(const ModelShape& shape) {
  return {.channels = 3,
          .height = shape.image,
          .width = shape.image,
          .wide = true,
          .gradient = false,
          .channels_last = shape.channels_last};
}

Activation token_input(std::int64_t tokens, std::int64_t width) {
  return {.channels = width, .height = tokens, .gradient = false};
}

Model image_model(const std::string& name, const ModelShape& shape, const std::string& source,
                  Layers& layers) {
  return {.name = name,
          .units = layers.take(),
          .sample = fmt::format("3x{0}x{0} image", shape.image),
          .input_elements = image_input(shape).elements(),
          .image = shape.image,
          .variant = shape.channels_last ? "channels_last" : "",
          .source = source};
}

namespace {

std::string variant_of(const ModelShape& shape) {
  std::vector<std::string> options;
  if (!shape.flash_attention) options.emplace_back("no flash attention");
  if (shape.loss != Loss::cross_entropy) options.push_back("loss " + to_string(shape.loss));
  return fmt::format("{}", fmt::join(options, ", "));
}

}  // namespace

Model token_model(const std::string& name, const ModelShape& shape, const std::string& source,
                  Layers& layers) {
  return {.name = name,
          .units = layers.take(),
          .sample = fmt::format("sequence of {} tokens", shape.sequence),
          .input_elements = static_cast<double>(shape.sequence),
          .tokens_per_sample = shape.sequence,
          .variant = variant_of(shape),
          .source = source};
}

}  // namespace rehearse
