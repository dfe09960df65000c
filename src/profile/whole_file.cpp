#include "profile/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "config/files_read.hpp"

namespace rehearse {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_write(const std::filesystem::path& file, int error) {
  throw MissingError(
      fmt::format("{}: error: cannot be written: {}", file.string(), std::strerror(error)));
}

/// Writes and waits for the disk. The errno of what failed, or 0.
int write_through(const std::filesystem::path& file, const std::string& text) {
  const std::unique_ptr<std::FILE, Close> stream(std::fopen(file.c_str(), "wb"));
  if (!stream) return errno;
  if (std::fwrite(text.data(), 1, text.size(), stream.get()) != text.size()) return errno;
  if (std::fflush(stream.get()) != 0 || fsync(fileno(stream.get())) != 0) return errno;
  return 0;
}

/// Makes the folders on the way, too.
std::filesystem::path temporary_beside(const std::filesystem::path& file) {
  std::error_code ignored;
  // Renaming would put a file in the place of a device.
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored)) {
    throw MissingError(
        fmt::format("{}: error: cannot be written: not a regular file", file.string()));
  }
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.tmp", getpid());
  return temporary;
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open() || std::filesystem::is_directory(file, ignored)) {
    throw MissingError(fmt::format("{}: error: cannot read this file", file.string()));
  }
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  FilesRead::note(file, text);
  return text;
}

void write_whole_file(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path temporary = temporary_beside(file);
  int error = write_through(temporary, text);
  if (error == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  fail_to_write(file, error);
}

void check_can_write(const std::filesystem::path& file) {
  const std::filesystem::path temporary = temporary_beside(file);
  const int error = write_through(temporary, "\n");
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  if (error != 0) fail_to_write(file, error);
}

}  // namespace rehearse
