#pragma once

#include <filesystem>

namespace rehearse::inline study {

/// Keeps other processes from writing what this one writes, until it ends in whatever way. Children
/// do not inherit it. The file stays.
class FileLock {
 public:
  /// MissingError if another process has it (with its id) or the file cannot be made.
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace rehearse::inline study
