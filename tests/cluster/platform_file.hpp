#pragma once

#include <string>

#include "../scratch.hpp"

namespace rehearse {

/// A platform file of the user's own, gone with the test.
class PlatformFile {
 public:
  explicit PlatformFile(const std::string& yaml)
      : path_(scratch_.write("platform.yaml", yaml).string()) {}

  /// A cluster that uses it, with more keys below.
  std::string use(const std::string& rest) const { return "use: " + path_ + "\n" + rest + "\n"; }

 private:
  Scratch scratch_;
  std::string path_;
};

}  // namespace rehearse
