#include "foreign/packed_text.hpp"

#include <fmt/format.h>

#include <utility>

namespace rehearse::inline foreign {
namespace {

constexpr unsigned kBuffer = 1U << 18;
constexpr std::size_t kMostToken = std::size_t{1} << 26;

}  // namespace

PackedText::PackedText(const std::filesystem::path& file,
                       const std::function<void(double)>& progress, Wrong wrong)
    : file_(gzopen(file.c_str(), "rb")),
      name_(file.string()),
      progress_(progress),
      wrong_(std::move(wrong)),
      buffer_(kBuffer),
      at_(buffer_.data()),
      end_(at_) {
  if (file_ == nullptr) throw MissingError(name_ + ": error: cannot read the file");
  gzbuffer(file_, kBuffer);
}

void PackedText::fill() {
  if (Tell() - token_ > kMostToken) fail(fmt::format("a text of more than {} bytes", kMostToken));
  passed_ += static_cast<std::size_t>(end_ - buffer_.data());
  const int got = gzread(file_, buffer_.data(), kBuffer);
  if (got < 0) throw InputError(name_ + ": error: gzip's data is damaged");
  at_ = buffer_.data();
  end_ = at_ + got;
  if (progress_) progress_(static_cast<double>(passed_ + static_cast<std::size_t>(got)));
}

}  // namespace rehearse::inline foreign
