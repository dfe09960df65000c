#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

/// A folder for the file through which ranks of one node find each other; removed with all in it.
class MeetingFolder {
 public:
  MeetingFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rehearse-ranks-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw MissingError(fmt::format("error: no temporary folder: {}", std::strerror(errno)));
    }
    path_ = name;
  }
  ~MeetingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MeetingFolder(const MeetingFolder&) = delete;
  MeetingFolder& operator=(const MeetingFolder&) = delete;
  std::string store_file() const { return path_ / "store"; }

 private:
  std::filesystem::path path_;
};

}  // namespace rehearse::inline calibrate
