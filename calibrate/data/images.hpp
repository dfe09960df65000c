#pragma once

#include <cstdint>
#include <filesystem>

#include "data/data_file.hpp"

namespace rehearse::inline calibrate {

/// Labelled square images: of each its channels one after the other, each row by row, a byte for a
/// pixel.
struct Images {
  std::size_t channels = 1;
  std::size_t side = 0;
  DataBytes pixels;
  DataBytes labels;

  std::size_t count() const { return labels.size(); }
  std::size_t pixels_each() const { return channels * side * side; }
};

/// Images [first, last).
Images slice(const Images& images, std::size_t first, std::size_t last);
/// `more` after `images`; they are alike in channels and side.
void append(Images& images, const Images& more);

/// The number of classes of both formats.
constexpr std::uint8_t kClasses = 10;

/// The IDX files of MNIST, Fashion-MNIST and their family (LeCun, Cortes, Burges, "The MNIST
/// database"): magic 0x00000803 and 0x00000801, sizes big-endian, bytes. InputError `file: error:
/// byte N: ...` where the files are anything else, do not belong together, or have labels above 9.
Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);

/// A file of CIFAR-10's binary version (Krizhevsky 2009): records of a label and 3 x 32 x 32 bytes.
/// InputError likewise.
Images read_cifar10(const std::filesystem::path& file);

}  // namespace rehearse::inline calibrate
