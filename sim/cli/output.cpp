#include "cli/output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.hpp"

namespace rehearse {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail_to_write(const std::string& name) {
  throw MissingError(fmt::format("{}: error: cannot be written: {}", name, std::strerror(errno)));
}

/// Opens, writes, and closes; errors of each carry `name`, which the user knows.
void write_directly(const std::filesystem::path& file, const std::string& text,
                    const std::string& name) {
  std::unique_ptr<std::FILE, Close> stream(std::fopen(file.c_str(), "wb"));
  if (!stream) fail_to_write(name);
  const bool written = std::fwrite(text.data(), 1, text.size(), stream.get()) == text.size();
  if (!written || std::fflush(stream.get()) != 0) fail_to_write(name);
}

}  // namespace

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  // Renaming over a device would replace it; a directory gets its own message from the system.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    write_directly(file, text, file.string());
    return;
  }
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.tmp", getpid());
  try {
    write_directly(temporary, text, file.string());
    if (std::rename(temporary.c_str(), file.c_str()) != 0) fail_to_write(file.string());
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

void write_stdout(const std::string& text) {
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
