#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// While it lives, notes every file that this thread reads as input (Document::load,
/// read_whole_file): what a result depends on besides the text at hand. They may be nested; each
/// notes all.
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

  /// For those who read files.
  static void note(const std::filesystem::path& name, std::string_view text);

 private:
  std::vector<File> files_;
  FilesRead* outer_;
};

}  // namespace rehearse
