#include "server/snapshot_file.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

struct Head {
  std::uint64_t version = 0;
  double applied = 0;
  std::uint64_t size = 0;
};

}  // namespace

SnapshotWriter::SnapshotWriter(const std::filesystem::path& file)
    : file_(file), stream_(file, std::ios::binary | std::ios::trunc) {
  if (!stream_) throw MissingError(fmt::format("{}: error: cannot be written", file.string()));
}

void SnapshotWriter::append(const ServerSnapshot& snapshot) {
  const Head head{snapshot.version, snapshot.applied.value(), snapshot.parameters.size()};
  stream_.write(reinterpret_cast<const char*>(&head), sizeof head);
  stream_.write(reinterpret_cast<const char*>(snapshot.parameters.data()),
                static_cast<std::streamsize>(snapshot.parameters.size()));
  stream_.flush();
  if (!stream_) throw MissingError(fmt::format("{}: error: cannot be written", file_.string()));
}

void read_snapshots(const std::filesystem::path& file,
                    const std::function<void(const ServerSnapshot&)>& take) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw MissingError(fmt::format("{}: error: cannot read this file", file.string()));
  const std::uintmax_t size = std::filesystem::file_size(file);
  Head head;
  std::vector<std::byte> parameters;
  while (stream.read(reinterpret_cast<char*>(&head), sizeof head)) {
    parameters.resize(std::min<std::uintmax_t>(head.size, size));
    stream.read(reinterpret_cast<char*>(parameters.data()),
                static_cast<std::streamsize>(parameters.size()));
    if (!stream || head.size > size)
      throw MissingError(fmt::format("{}: error: ends within a snapshot", file.string()));
    take({head.version, Seconds(head.applied), parameters});
  }
}

}  // namespace rehearse::inline calibrate
