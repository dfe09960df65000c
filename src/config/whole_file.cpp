#include "config/whole_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "config/files_read.hpp"

namespace rehearse::inline config {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_write(const std::filesystem::path& file, int error) {
  throw MissingError(
      fmt::format("{}: error: cannot be written: {}", file.string(), std::strerror(error)));
}

/// Of a file that is read; no log or profile comes near it.
constexpr std::size_t kMostBytes = std::size_t{512} << 20;

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
  std::string text = read_input(file, kMostBytes);
  if (text.size() <= kMostBytes) return text;
  throw InputError(fmt::format("{}: error: the file is larger than 512 MiB", file.string()));
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

void remove_temporaries(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const std::string begin = file.filename().string() + ".", end = ".tmp";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) ||
        !name.ends_with(end))
      continue;
    const std::string process = name.substr(begin.size(), name.size() - begin.size() - end.size());
    if (process.find_first_not_of("0123456789") == std::string::npos)
      std::filesystem::remove(entry.path(), ignored);
  }
}

void check_can_write(const std::filesystem::path& file) {
  const std::filesystem::path temporary = temporary_beside(file);
  const int error = write_through(temporary, "\n");
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  if (error != 0) fail_to_write(file, error);
}

}  // namespace rehearse::inline config
