#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.hpp"

namespace rehearse {

/// A folder of the test's own, gone with it.
class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "rehearse_study_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
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

/// What `work` throws, as text; empty if it throws nothing.
template <class Work>
std::string error_from(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace rehearse
