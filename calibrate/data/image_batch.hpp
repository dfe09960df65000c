#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/images.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Images as a network takes them: samples x 3 x side x side in fp32 on the CPU, normalised by the
/// data set's customary mean and deviation (of `dataset`: mnist, fashion-mnist or cifar10); a gray
/// image fills all three channels. Targets are the labels.
Batch image_batch(const Images& images, std::span<const std::uint32_t> samples,
                  const std::string& dataset);

}  // namespace rehearse::inline calibrate
