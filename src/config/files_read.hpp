#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline config {

/// Reads a file, or a record of a set (record_set.hpp), as input. Reads little more than `most`
/// bytes, so that a device without an end does not fill the memory; the caller refuses what is
/// longer. MissingError, with the reason, if it cannot be read, or is a pipe that nobody writes to
/// within ten seconds.
std::string read_input(const std::filesystem::path& file, std::size_t most);

/// While it lives, notes every file that this thread reads as input (read_input): what a result
/// depends on besides the text at hand. They may be nested; each notes all.
class FilesRead {
 public:
  struct File {
    std::filesystem::path name;  ///< as it was opened
    std::string text;
  };

  FilesRead();
  ~FilesRead();
  FilesRead(const FilesRead&) = delete;
  FilesRead& operator=(const FilesRead&) = delete;

  /// In the order of reading; a file that was read twice stands there twice.
  const std::vector<File>& files() const { return files_; }

 private:
  friend std::string read_input(const std::filesystem::path& file, std::size_t most);
  static void note(const std::filesystem::path& name, std::string_view text);

  std::vector<File> files_;
  FilesRead* outer_;
};

/// While it lives, this thread and children that it forks read each file once: whoever asks again
/// gets what was read first, whatever has become of the file. One at a time.
class FilesKept {
 public:
  FilesKept();
  ~FilesKept();
  FilesKept(const FilesKept&) = delete;
  FilesKept& operator=(const FilesKept&) = delete;

  /// Keeps `text` as if it had been read from `name`; in the place of what was.
  void keep(const std::filesystem::path& name, std::string text);
  /// From now on no other file is there: MissingError.
  void close() { closed_ = true; }

  /// The one that lives; null if none does.
  static FilesKept* current();
  /// True where a text is kept under this name.
  static bool holds(const std::filesystem::path& name);
  /// Names of the files read so far; nothing where none lives.
  static std::vector<std::filesystem::path> names();

 private:
  friend std::string read_input(const std::filesystem::path& file, std::size_t most);
  std::map<std::filesystem::path, std::string> texts_;
  bool closed_ = false;
};

}  // namespace rehearse::inline config
