#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>

#include "server/parameter_server.hpp"

namespace rehearse::inline calibrate {

/// Keeps a server's snapshots in a file, one after the other, for another process of this machine.
class SnapshotWriter {
 public:
  /// MissingError if the file cannot be written; so does append().
  explicit SnapshotWriter(const std::filesystem::path& file);
  void append(const ServerSnapshot& snapshot);

 private:
  std::filesystem::path file_;
  std::ofstream stream_;
};

/// Gives each snapshot of such a file to `take`, in order, one at a time in memory. MissingError if
/// the file cannot be read.
void read_snapshots(const std::filesystem::path& file,
                    const std::function<void(const ServerSnapshot&)>& take);

}  // namespace rehearse::inline calibrate
