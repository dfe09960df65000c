#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace rehearse {

/// A platform file of the user's own, gone with the test.
class PlatformFile {
 public:
  explicit PlatformFile(const std::string& yaml)
      : path_(std::filesystem::temp_directory_path() / "rehearse_test_platform.yaml") {
    std::ofstream(path_) << yaml;
  }
  PlatformFile(const PlatformFile&) = delete;
  PlatformFile& operator=(const PlatformFile&) = delete;
  ~PlatformFile() { std::filesystem::remove(path_); }

  /// A cluster that uses it, with more keys below.
  std::string use(const std::string& rest) const {
    return "use: " + path_.string() + "\n" + rest + "\n";
  }

 private:
  std::filesystem::path path_;
};

}  // namespace rehearse
