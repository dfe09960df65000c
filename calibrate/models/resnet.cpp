#include <fmt/format.h>

#include <array>

#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
constexpr std::int64_t kExpansion = 4;

/// torchvision's Bottleneck: the stride is in the 3x3 convolution.
class Bottleneck : public UnitModule {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride) {
    const std::int64_t out = kExpansion * width;
    branch_ = register_module(
        "branch",
        nn::Sequential(
            convolution({.in = in, .out = width}), batch_norm(width), relu_in_place(),
            convolution({.in = width, .out = width, .kernel = 3, .stride = stride, .padding = 1}),
            batch_norm(width), relu_in_place(), convolution({.in = width, .out = out}),
            batch_norm(out)));
    if (stride == 1 && in == out) return;
    shortcut_ = register_module(
        "shortcut",
        nn::Sequential(convolution({.in = in, .out = out, .stride = stride}), batch_norm(out)));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor output = branch_->forward(input);
    output += shortcut_.is_empty() ? input : shortcut_->forward(input);
    return output.relu_();
  }

 private:
  nn::Sequential branch_{nullptr};
  nn::Sequential shortcut_{nullptr};
};

}  // namespace

Chain resnet50_chain(const ModelShape& shape) {
  std::vector<ChainUnit> units;
  units.push_back(
      {"stem", sequential_unit(nn::Sequential(
                   convolution({.out = 64, .kernel = 7, .stride = 2, .padding = 3}), batch_norm(64),
                   relu_in_place(), nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))))});
  std::int64_t channels = 64;
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      units.push_back(
          {fmt::format("layer{}.{}", stage + 1, block),
           std::make_shared<Bottleneck>(channels, width, stage > 0 && block == 0 ? 2 : 1)});
      channels = kExpansion * width;
    }
  }
  units.push_back({"head", sequential_unit(nn::Sequential(average_to(1), nn::Flatten(),
                                                          nn::Linear(channels, shape.classes)))});
  return image_chain("resnet50", shape, std::move(units));
}

}  // namespace rehearse::inline calibrate
