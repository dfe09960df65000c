#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/dataset.hpp"

namespace rehearse {

/// Images that a network can learn to tell apart: the digits of a seven-segment display, moved by
/// up to 3 pixels, in noise. The same for the same seed.
Images synthetic_digits(std::size_t count, std::uint64_t seed, std::size_t side = 28,
                        std::size_t channels = 1);

/// The two files of a part ("train", "t10k") as MNIST has them.
void write_idx(const Images& images, const std::filesystem::path& folder, const std::string& part);
/// A file as CIFAR-10 has them; 3 x 32 x 32.
void write_cifar10(const Images& images, const std::filesystem::path& file);

/// A data set of such digits, without files.
Dataset synthetic_dataset(std::size_t train, std::size_t test);

}  // namespace rehearse
