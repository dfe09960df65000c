#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/images.hpp"
#include "data/text.hpp"

namespace rehearse::inline calibrate {

/// Samples that a network trains or is tested with.
struct Samples {
  std::variant<Images, Text> of;

  std::size_t count() const;
  /// Bytes of all that it is made of.
  std::vector<const DataBytes*> bytes() const;
};

/// Samples [first, last).
Samples slice(const Samples& samples, std::size_t first, std::size_t last);

/// image_batch() or text_batch().
Batch sample_batch(const Samples& samples, std::span<const std::uint32_t> which,
                   const std::string& dataset);

}  // namespace rehearse::inline calibrate
