#include "model/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace rehearse::inline model {
namespace {

/// In the order in which they are listed; transformers stand where the first of them does.
const std::vector<Architecture>& other_networks() {
  static const std::vector<Architecture> kAll = {
      {"vgg16", "VGG-16 (Simonyan and Zisserman 2014), 138.4 M parameters, 224x224", build_vgg16},
      {"resnet50", "ResNet-50 (He et al. 2016), 25.6 M parameters, 224x224", build_resnet50},
      {"resnet101", "ResNet-101 (He et al. 2016), 44.5 M parameters, 224x224", build_resnet101},
      {"resnet152", "ResNet-152 (He et al. 2016), 60.2 M parameters, 224x224", build_resnet152},
      {"densenet121", "DenseNet-121 (Huang et al. 2017), 8.0 M parameters, 224x224",
       build_densenet121},
      {"efficientnet_v2_l", "EfficientNetV2-L (Tan and Le 2021), 118.5 M parameters, 480x480",
       build_efficientnet_v2_l},
      {"convnext_large", "ConvNeXt-Large (Liu et al. 2022), 197.8 M parameters, 224x224",
       build_convnext_large},
      {"bert_base",
       "BERT-Base with its pre-training heads (Devlin et al. 2018), 110.1 M parameters, 128 tokens",
       build_bert_base},
      {"bert_large",
       "BERT-Large with its pre-training heads (Devlin et al. 2018), 336.2 M parameters, 128 "
       "tokens",
       build_bert_large},
      {"small_cnn", "Two convolutions and two linear layers, 545 k parameters, 32x32, 10 classes",
       build_small_cnn},
      {"small_mlp", "Three linear layers, 402 k parameters, 32x32, 10 classes", build_small_mlp},
  };
  return kAll;
}

const Architecture* find_other(const std::string& name) {
  for (const Architecture& architecture : other_networks()) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

const BuiltInTransformer* find_transformer(const std::string& name) {
  for (const BuiltInTransformer& one : built_in_transformers()) {
    if (one.shape.name == name) return &one;
  }
  return nullptr;
}

[[noreturn]] void refuse(const std::string& name) {
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
    for (const Architecture& architecture : other_networks()) names.push_back(architecture.name);
    const auto before = std::ranges::find(names, "small_cnn");
    std::vector<std::string> transformers;
    for (const BuiltInTransformer& one : built_in_transformers())
      transformers.push_back(one.shape.name);
    names.insert(before, transformers.begin(), transformers.end());
    return names;
  }();
  return kNames;
}

std::string describe_architecture(const std::string& name) {
  if (const BuiltInTransformer* one = find_transformer(name)) return one->description;
  if (const Architecture* one = find_other(name)) return one->description;
  refuse(name);
}

const TransformerShape* built_in_shape(const std::string& name) {
  const BuiltInTransformer* one = find_transformer(name);
  return one ? &one->shape : nullptr;
}

static void check_loss(const Model& model, const ModelShape& shape) {
  const bool plain = shape.loss == Loss::cross_entropy && !shape.loss_parts.any();
  require(plain || is_causal_language_model(model),
          fmt::format("{} is no causal language model: its loss shifts no logits", model.name));
}

Model build_architecture(const std::string& name, const ModelShape& shape) {
  if (const TransformerShape* transformer = built_in_shape(name))
    return build_transformer(*transformer, shape);
  const Architecture* one = find_other(name);
  if (one == nullptr) refuse(name);
  Model model = one->build(shape);
  model.family = name;
  check_loss(model, shape);
  return model;
}

Model build_transformer(const TransformerShape& transformer, const ModelShape& shape) {
  Model model = transformer_model(transformer, shape);
  check_loss(model, shape);
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
  if (shape.attention_kernel != AttentionKernel::sdpa)
    options.push_back(to_string(shape.attention_kernel));
  if (shape.fused_softmax) options.emplace_back("fused softmax");
  if (shape.wide_at_start + shape.wide_at_end > 0)
    options.push_back(fmt::format("{} + {} blocks wide", shape.wide_at_start, shape.wide_at_end));
  if (shape.loss != Loss::cross_entropy) options.push_back("loss " + to_string(shape.loss));
  if (shape.loss_parts.fused) options.emplace_back("fused loss");
  if (shape.loss_parts.chunks > 0)
    options.push_back(fmt::format("loss in {} chunks{}", shape.loss_parts.chunks,
                                  shape.loss_parts.at_once ? ", of which none is kept" : ""));
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

}  // namespace rehearse::inline model
