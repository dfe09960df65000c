#include "synthetic_digits.hpp"

#include <array>

#include "base/random.hpp"
#include "config/whole_file.hpp"

namespace rehearse {
namespace {

/// Which of the segments (top, upper left, upper right, middle, lower left, lower right, bottom)
/// each digit lights.
constexpr std::array<std::uint8_t, 10> kSegments = {0b1110111, 0b0100100, 0b1011101, 0b1101101,
                                                    0b0101110, 0b1101011, 0b1111011, 0b0100101,
                                                    0b1111111, 0b1101111};

struct Box {
  int x0, y0, x1, y1;
};
constexpr std::array<Box, 7> kBoxes = {{{8, 5, 19, 7},
                                        {8, 5, 10, 14},
                                        {17, 5, 19, 14},
                                        {8, 12, 19, 14},
                                        {8, 12, 10, 21},
                                        {17, 12, 19, 21},
                                        {8, 19, 19, 21}}};

bool is_lit(int digit, int x, int y) {
  for (std::size_t s = 0; s < kBoxes.size(); ++s) {
    const Box& box = kBoxes[s];
    const bool inside = x >= box.x0 && x <= box.x1 && y >= box.y0 && y <= box.y1;
    if (inside && (kSegments[static_cast<std::size_t>(digit)] >> s & 1) != 0) return true;
  }
  return false;
}

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

}  // namespace

Images synthetic_digits(std::size_t count, std::uint64_t seed, std::size_t side,
                        std::size_t channels) {
  constexpr double kInk = 150, kNoise = 100;
  Images images{channels, side, {}, {}};
  RandomStream stream = random_stream(seed, "synthetic digits");
  const auto whole = [&](int bound) { return static_cast<int>(uniform01(stream) * bound); };
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = whole(10), right = whole(7) - 3, down = whole(7) - 3;
    images.labels.push_back(static_cast<std::uint8_t>(digit));
    for (std::size_t pixel = 0; pixel < images.pixels_each(); ++pixel) {
      const int x = static_cast<int>(pixel % side), y = static_cast<int>(pixel / side % side);
      const double ink = is_lit(digit, x - right, y - down) ? kInk : 0;
      images.pixels.push_back(static_cast<std::uint8_t>(ink + kNoise * uniform01(stream)));
    }
  }
  return images;
}

void write_idx(const Images& images, const std::filesystem::path& folder, const std::string& part) {
  const auto count = static_cast<std::uint32_t>(images.count());
  const auto side = static_cast<std::uint32_t>(images.side);
  write_whole_file(folder / (part + "-images-idx3-ubyte"),
                   big_endian(0x803) + big_endian(count) + big_endian(side) + big_endian(side) +
                       std::string(images.pixels.begin(), images.pixels.end()));
  write_whole_file(folder / (part + "-labels-idx1-ubyte"),
                   big_endian(0x801) + big_endian(count) +
                       std::string(images.labels.begin(), images.labels.end()));
}

void write_cifar10(const Images& images, const std::filesystem::path& file) {
  std::string text;
  for (std::size_t i = 0; i < images.count(); ++i) {
    text += static_cast<char>(images.labels[i]);
    const auto begin =
        images.pixels.begin() + static_cast<std::ptrdiff_t>(i * images.pixels_each());
    text.append(begin, begin + static_cast<std::ptrdiff_t>(images.pixels_each()));
  }
  write_whole_file(file, text);
}

Dataset synthetic_dataset(std::size_t train, std::size_t test) {
  return {"mnist", "synthetic digits", {synthetic_digits(train, 1)}, {synthetic_digits(test, 2)}};
}

}  // namespace rehearse
