#include "profile/whole_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.hpp"

namespace rehearse {

std::string read_whole_file(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open() || std::filesystem::is_directory(file, ignored)) {
    throw MissingError(fmt::format("{}: error: cannot read this file", file.string()));
  }
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

}  // namespace rehearse
