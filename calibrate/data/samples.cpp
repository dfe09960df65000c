#include "data/samples.hpp"

#include "data/image_batch.hpp"

namespace rehearse::inline calibrate {

std::size_t Samples::count() const {
  return std::visit([](const auto& samples) { return samples.count(); }, of);
}

std::vector<const DataBytes*> Samples::bytes() const {
  if (const auto* text = std::get_if<Text>(&of)) return {&text->bytes};
  const auto& images = std::get<Images>(of);
  return {&images.pixels, &images.labels};
}

Samples slice(const Samples& samples, std::size_t first, std::size_t last) {
  return std::visit([&](const auto& all) { return Samples{slice(all, first, last)}; }, samples.of);
}

Batch sample_batch(const Samples& samples, std::span<const std::uint32_t> which,
                   const std::string& dataset) {
  if (const auto* text = std::get_if<Text>(&samples.of)) return text_batch(*text, which);
  return image_batch(std::get<Images>(samples.of), which, dataset);
}

}  // namespace rehearse::inline calibrate
