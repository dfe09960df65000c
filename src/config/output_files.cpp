#include "config/output_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline config {
namespace {

constexpr const char* kStandardOutput = "-";

/// Of a stream that is written directly.
struct CloseStream {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_as_unwritten(const std::string& name) {
  throw MissingError(fmt::format("{}: error: cannot be written: {}", name, std::strerror(errno)));
}

void write_stream(std::FILE* stream, const std::string& text, const std::string& name) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (!written || std::fflush(stream) != 0) fail_as_unwritten(name);
}

void write_directly(const std::filesystem::path& file, const std::string& text) {
  if (file == kStandardOutput) return write_stream(stdout, text, "standard output");
  const std::unique_ptr<std::FILE, CloseStream> stream(std::fopen(file.c_str(), "wb"));
  if (!stream) fail_as_unwritten(file.string());
  write_stream(stream.get(), text, file.string());
}

bool is_special(const std::filesystem::path& file) {
  if (file == kStandardOutput) return true;
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

bool is_same(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (one.empty() || other.empty()) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(one, other, ignored)) return true;
  const auto place = [&](const std::filesystem::path& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file), ignored);
  };
  return place(one) == place(other);
}

[[noreturn]] void fail_as_taken(const OutputFile& output, const std::string& by) {
  throw InputError(fmt::format("rehearse: error: {} {}: {}\nremedy: name another file",
                               output.option, output.file.string(), by));
}

}  // namespace

void write_file(const std::filesystem::path& file, const std::string& text) {
  // Renaming over a device would replace it; a directory gets its own message from the system.
  if (is_special(file)) return write_directly(file, text);
  std::error_code ignored;
  if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path(), ignored)) {
    errno = ENOENT;  // a folder that nobody asked for is not made
    fail_as_unwritten(file.string());
  }
  write_whole_file(file, text);
}

void check_outputs(const std::vector<OutputFile>& outputs,
                   const std::vector<std::filesystem::path>& taken) {
  const std::vector<std::filesystem::path> read = FilesKept::names();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& one = outputs[i];
    if (one.file.empty() || is_special(one.file)) continue;
    const auto same = [&](const std::filesystem::path& file) { return is_same(one.file, file); };
    for (std::size_t j = 0; j < i; ++j) {
      if (!outputs[j].file.empty() && same(outputs[j].file))
        fail_as_taken(one, outputs[j].option + " writes this file, too");
    }
    if (std::ranges::any_of(read, same)) fail_as_taken(one, "it is an input, which is kept");
    if (std::ranges::any_of(taken, same)) fail_as_taken(one, "its place is taken");
  }
}

}  // namespace rehearse::inline config
