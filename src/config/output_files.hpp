#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse::inline config {

/// Writes a file so that a reader sees the old one or the whole new one (write_whole_file), into a
/// folder that is there. A device or a pipe is written directly, and `-` is standard output.
/// MissingError if it cannot be written.
void write_file(const std::filesystem::path& file, const std::string& text);

/// A file that an option names; none where the path is empty.
struct OutputFile {
  std::string option;  ///< "--html"
  std::filesystem::path file;
};

/// InputError where two of the outputs are the same file, or one is a file that was read as input
/// (FilesKept) or is among `taken`. Devices and pipes may be named as often as one likes.
void check_outputs(const std::vector<OutputFile>& outputs,
                   const std::vector<std::filesystem::path>& taken = {});

}  // namespace rehearse::inline config
