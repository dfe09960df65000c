#include "config/files_read.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "config/record_set.hpp"

namespace rehearse::inline config {
namespace {

thread_local FilesRead* innermost = nullptr;
thread_local FilesKept* kept = nullptr;

constexpr std::chrono::seconds kLongestWait{10};

[[noreturn]] void fail_to_read(const std::filesystem::path& file, const std::string& reason) {
  throw MissingError(fmt::format("{}: error: cannot read the file: {}", file.string(), reason));
}

/// An open file, read in blocks.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& file)
      : file_(file), descriptor_(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (descriptor_ < 0) fail_to_read(file, std::strerror(errno));
    struct stat status {};
    fstat(descriptor_, &status);
    is_pipe_ = S_ISFIFO(status.st_mode);
    if (!S_ISDIR(status.st_mode)) return;
    close(descriptor_);
    fail_to_read(file, "it is a folder");
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Appends some of what follows; false at the end.
  bool read_some(std::string& text) {
    std::array<char, 65536> block{};
    for (;;) {
      const ssize_t count = read(descriptor_, block.data(), block.size());
      if (count > 0) {
        text.append(block.data(), static_cast<std::size_t>(count));
        return true;
      }
      // A pipe that nobody writes to ends at once, though somebody may come.
      if (count == 0 && !(is_pipe_ && text.empty())) return false;
      if (count < 0 && errno != EAGAIN && errno != EINTR) fail_to_read(file_, std::strerror(errno));
      wait(count == 0);
    }
  }

 private:
  void wait(bool for_a_writer) {
    if (for_a_writer && Clock::now() - opened_ > kLongestWait)
      fail_to_read(file_, "nothing came through this pipe within 10 s");
    constexpr int kTickMilliseconds = 20;
    pollfd one{descriptor_, POLLIN, 0};
    poll(&one, 1, for_a_writer ? kTickMilliseconds : -1);
    // A pipe whose writers have gone is ready at once, and so is a device.
    if (for_a_writer) std::this_thread::sleep_for(std::chrono::milliseconds(kTickMilliseconds));
  }

  using Clock = std::chrono::steady_clock;
  const std::filesystem::path& file_;
  int descriptor_;
  bool is_pipe_ = false;
  Clock::time_point opened_ = Clock::now();
};

std::string read_from_disk(const std::filesystem::path& file, std::size_t most) {
  if (std::optional<std::string> text = record_text(file)) return *std::move(text);
  InputFile input(file);
  std::string text;
  while (text.size() <= most && input.read_some(text)) {
  }
  return text;
}

}  // namespace

std::string read_input(const std::filesystem::path& file, std::size_t most) {
  std::string text;
  if (kept != nullptr && kept->texts_.contains(file)) {
    text = kept->texts_.at(file);
  } else {
    if (kept != nullptr && kept->closed_) fail_to_read(file, "no such file");
    text = read_from_disk(file, most);
    if (kept != nullptr) kept->texts_.emplace(file, text);
  }
  FilesRead::note(file, text);
  return text;
}

FilesRead::FilesRead() : outer_(innermost) { innermost = this; }
FilesRead::~FilesRead() { innermost = outer_; }

void FilesRead::note(const std::filesystem::path& name, std::string_view text) {
  for (FilesRead* log = innermost; log != nullptr; log = log->outer_) {
    log->files_.push_back({name, std::string(text)});
  }
}

FilesKept::FilesKept() {
  check(kept == nullptr, "files are kept in one place");
  kept = this;
}
FilesKept::~FilesKept() { kept = nullptr; }

void FilesKept::keep(const std::filesystem::path& name, std::string text) {
  texts_.insert_or_assign(name, std::move(text));
}

FilesKept* FilesKept::current() { return kept; }

bool FilesKept::holds(const std::filesystem::path& name) {
  return kept != nullptr && kept->texts_.contains(name);
}

std::vector<std::filesystem::path> FilesKept::names() {
  std::vector<std::filesystem::path> all;
  if (kept == nullptr) return all;
  for (const auto& [name, text] : kept->texts_) all.push_back(name);
  return all;
}

}  // namespace rehearse::inline config
