#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace rehearse {

/// A folder of the test's own, gone with it.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// Writes a file, with its folders.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  /// A message with the folder's name as SCRATCH.
  std::string anonymous(std::string text) const {
    for (std::size_t at = 0; (at = text.find(folder_.string())) != std::string::npos;) {
      text.replace(at, folder_.string().size(), "SCRATCH");
    }
    return text;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace rehearse
