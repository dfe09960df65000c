#include "study/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace rehearse::inline study {

FileLock::FileLock(const std::filesystem::path& file)
    : descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    throw MissingError(
        fmt::format("{}: error: cannot be written: {}\nremedy: --output FOLDER names another place",
                    file.string(), std::strerror(errno)));
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(descriptor_, F_SETLK, &whole) == 0) return;
  const int why = errno;
  fcntl(descriptor_, F_GETLK, &whole);
  close(descriptor_);
  if (why != EACCES && why != EAGAIN) {
    throw MissingError(
        fmt::format("{}: error: cannot be locked: {}", file.string(), std::strerror(why)));
  }
  throw MissingError(
      fmt::format("{}: error: another rehearse (process {}) is at work here\nremedy: wait for it, "
                  "or give another "
                  "--output",
                  file.parent_path().string(), whole.l_pid));
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace rehearse::inline study
