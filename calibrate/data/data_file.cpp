#include "data/data_file.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <memory>

#include "base/error.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30;
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr int kGzipAndLargestWindow = 16 + MAX_WBITS;

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw InputError(fmt::format("{}: error: {}", file.string(), what));
}

struct EndInflation {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

/// zlib's inflate and not its gzread: that takes what is no gzip as it is, and forgives what
/// follows.
DataBytes decompress(const std::filesystem::path& file, const std::string& packed) {
  z_stream stream{};
  check(inflateInit2(&stream, kGzipAndLargestWindow) == Z_OK, "zlib starts");
  const std::unique_ptr<z_stream, EndInflation> end(&stream);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  DataBytes bytes;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::size_t before = bytes.size();
    if (before >= kMostBytes) fail(file, "is larger than 4 GiB");
    bytes.resize(before + kChunk);
    stream.next_out = bytes.data() + before;
    stream.avail_out = static_cast<uInt>(kChunk);
    status = inflate(&stream, Z_NO_FLUSH);
    bytes.resize(before + kChunk - stream.avail_out);
    if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_in == 0 && stream.avail_out > 0))
      fail(file, "ends in the middle of its gzip data");
    if (status != Z_OK && status != Z_STREAM_END)
      fail(file, fmt::format("is no gzip data ({})", stream.msg ? stream.msg : "damaged"));
  }
  if (stream.avail_in > 0)
    fail(file, fmt::format("has {} bytes after its gzip data", stream.avail_in));
  return bytes;
}

}  // namespace

DataBytes read_data_file(const std::filesystem::path& file) {
  const std::string bytes = read_whole_file(file);
  if (bytes.size() >= kMostBytes) fail(file, "is larger than 4 GiB");
  if (file.extension() == ".gz") return decompress(file, bytes);
  return {bytes.begin(), bytes.end()};
}

std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const std::string& candidate : {name, name + ".gz"}) {
    if (std::filesystem::exists(folder / candidate, ignored)) return folder / candidate;
  }
  return {};
}

}  // namespace rehearse::inline calibrate
