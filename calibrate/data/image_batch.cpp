#include "data/image_batch.hpp"

#include <array>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

struct Normalisation {
  std::array<float, 3> mean, deviation;
};

Normalisation normalisation_of(const std::string& dataset) {
  if (dataset == "cifar10") return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  if (dataset == "fashion-mnist") return {{0.2860F, 0.2860F, 0.2860F}, {0.3530F, 0.3530F, 0.3530F}};
  return {{0.1307F, 0.1307F, 0.1307F}, {0.3081F, 0.3081F, 0.3081F}};
}

}  // namespace

Batch image_batch(const Images& images, std::span<const std::uint32_t> samples,
                  const std::string& dataset) {
  constexpr std::size_t kChannels = 3;
  constexpr float kWhite = 255;
  const Normalisation by = normalisation_of(dataset);
  const std::size_t plane = images.side * images.side;
  const auto side = static_cast<std::int64_t>(images.side);
  const auto count = static_cast<std::int64_t>(samples.size());
  Batch batch{torch::empty({count, kChannels, side, side}, torch::kFloat32),
              torch::empty({count}, torch::kInt64)};
  float* out = batch.input.data_ptr<float>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  for (const std::uint32_t sample : samples) {
    check(sample < images.count(), "a batch is of samples that are there");
    *target++ = images.labels[sample];
    for (std::size_t c = 0; c < kChannels; ++c) {
      const std::uint8_t* in = images.pixels.data() + sample * images.pixels_each() +
                               (images.channels == 1 ? 0 : c) * plane;
      for (std::size_t i = 0; i < plane; ++i)
        *out++ = (static_cast<float>(in[i]) / kWhite - by.mean[c]) / by.deviation[c];
    }
  }
  return batch;
}

}  // namespace rehearse::inline calibrate
