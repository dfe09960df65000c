#include "cli/output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "config/files_read.hpp"
#include "profile/whole_file.hpp"

namespace rehearse {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_write(const std::string& name) {
  throw MissingError(fmt::format("{}: error: cannot be written: {}", name, std::strerror(errno)));
}

void write_directly(const std::filesystem::path& file, const std::string& text) {
  std::unique_ptr<std::FILE, Close> stream(std::fopen(file.c_str(), "wb"));
  if (!stream) fail_to_write(file.string());
  const bool written = std::fwrite(text.data(), 1, text.size(), stream.get()) == text.size();
  if (!written || std::fflush(stream.get()) != 0) fail_to_write(file.string());
}

bool is_special(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

}  // namespace

void write_file(const std::filesystem::path& file, const std::string& text) {
  // Renaming over a device would replace it; a directory gets its own message from the system.
  if (is_special(file)) return write_directly(file, text);
  std::error_code ignored;
  if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path(), ignored)) {
    errno = ENOENT;  // a folder that nobody asked for is not made
    fail_to_write(file.string());
  }
  write_whole_file(file, text);
}

namespace {

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

void write_stdout(const std::string& given) {
  const std::string text = isatty(STDOUT_FILENO) == 1 ? printable(given) : given;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  if (errno != EPIPE) fail_to_write("standard output");
}

void write_result(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) {
    write_stdout(text);
  } else {
    write_file(file, text);
  }
}

ColorChoice parse_color_choice(const std::string& name) {
  if (name == "always") return ColorChoice::always;
  return name == "never" ? ColorChoice::never : ColorChoice::automatic;
}

bool use_color(ColorChoice choice) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

int terminal_width() {
  constexpr int kDefault = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return size.ws_col;
}

}  // namespace rehearse
