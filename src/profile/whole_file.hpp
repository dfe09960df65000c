#pragma once

#include <filesystem>
#include <string>

namespace rehearse {

/// The bytes of a file. MissingError if it cannot be read.
std::string read_whole_file(const std::filesystem::path& file);

}  // namespace rehearse
