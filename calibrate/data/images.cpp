#include "data/images.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::uint32_t kIdxImages = 0x00000803, kIdxLabels = 0x00000801;
constexpr std::uint32_t kLargestSide = 4096;
constexpr std::size_t kCifarSide = 32, kCifarRecord = 1 + 3 * kCifarSide * kCifarSide;

/// Bytes that are taken one after the other; errors name the byte.
class ByteReader {
 public:
  explicit ByteReader(const std::filesystem::path& file)
      : file_(file), bytes_(read_data_file(file)) {}

  std::uint32_t big_endian() {
    if (left() < 4) fail(position_, "the file ends within its head");
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | bytes_[position_++];
    return value;
  }
  void expect_magic(std::uint32_t magic, const char* what) {
    const std::uint32_t got = big_endian();
    if (got != magic)
      fail(0, fmt::format("expected the magic 0x{:08x} of IDX {}; got 0x{:08x}", magic, what, got));
  }
  /// All that follows, which is this much.
  DataBytes rest(std::size_t size) {
    if (left() != size)
      fail(position_,
           fmt::format("expected {} bytes from here, as the head says; got {}", size, left()));
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(position_), bytes_.end()};
  }
  std::size_t left() const { return bytes_.size() - position_; }

  [[noreturn]] void fail(std::size_t byte, const std::string& what) const {
    throw InputError(fmt::format("{}: error: byte {}: {}", file_.string(), byte, what));
  }

 private:
  std::filesystem::path file_;
  DataBytes bytes_;
  std::size_t position_ = 0;
};

std::size_t read_side(ByteReader& reader) {
  const std::uint32_t rows = reader.big_endian(), columns = reader.big_endian();
  if (rows != columns || rows == 0 || rows > kLargestSide)
    reader.fail(8, fmt::format("expected square images; got {} x {}", rows, columns));
  return rows;
}

}  // namespace

Images slice(const Images& images, std::size_t first, std::size_t last) {
  check(first <= last && last <= images.count(), "a slice lies within the images");
  const auto part = [](const DataBytes& bytes, std::size_t from, std::size_t to) {
    return DataBytes(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                     bytes.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const std::size_t each = images.pixels_each();
  return {images.channels, images.side, part(images.pixels, first * each, last * each),
          part(images.labels, first, last)};
}

void append(Images& images, const Images& more) {
  check(images.channels == more.channels && images.side == more.side, "images are alike");
  images.pixels.insert(images.pixels.end(), more.pixels.begin(), more.pixels.end());
  images.labels.insert(images.labels.end(), more.labels.begin(), more.labels.end());
}

Images read_idx(const std::filesystem::path& images, const std::filesystem::path& labels) {
  ByteReader pixels(images);
  pixels.expect_magic(kIdxImages, "images");
  const std::size_t count = pixels.big_endian();
  Images result{1, read_side(pixels), {}, {}};
  result.pixels = pixels.rest(count * result.pixels_each());

  ByteReader classes(labels);
  classes.expect_magic(kIdxLabels, "labels");
  const std::size_t labelled = classes.big_endian();
  if (labelled != count) {
    classes.fail(4, fmt::format("expected {} labels, as there are images in {}; got {}", count,
                                images.filename().string(), labelled));
  }
  result.labels = classes.rest(count);
  const auto high = std::ranges::find_if(result.labels, [](auto c) { return c >= kClasses; });
  if (high != result.labels.end()) {
    classes.fail(8 + static_cast<std::size_t>(high - result.labels.begin()),
                 fmt::format("expected a label from 0 to 9; got {}", *high));
  }
  return result;
}

Images read_cifar10(const std::filesystem::path& file) {
  ByteReader reader(file);
  const std::size_t size = reader.left();
  if (size == 0 || size % kCifarRecord != 0) {
    reader.fail(size - size % kCifarRecord, fmt::format("expected records of {} bytes; got {} more",
                                                        kCifarRecord, size % kCifarRecord));
  }
  const DataBytes bytes = reader.rest(size);
  Images result{3, kCifarSide, {}, {}};
  for (std::size_t at = 0; at < size; at += kCifarRecord) {
    if (bytes[at] >= kClasses)
      reader.fail(at, fmt::format("expected a label from 0 to 9; got {}", bytes[at]));
    result.labels.push_back(bytes[at]);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    result.pixels.insert(result.pixels.end(), begin + 1,
                         begin + static_cast<std::ptrdiff_t>(kCifarRecord));
  }
  return result;
}

}  // namespace rehearse::inline calibrate
