#pragma once

#include <zlib.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline foreign {

/// A file's text, whether gzip has packed it or not, as RapidJSON reads a stream. One buffer of it
/// is in memory.
class PackedText {
 public:
  using Ch = char;
  /// Makes an error of a byte's place and of what is wrong there.
  using Wrong = std::function<InputError(std::size_t place, const std::string& message)>;
  /// `progress` is told bytes. MissingError where nobody can open the file.
  PackedText(const std::filesystem::path& file, const std::function<void(double)>& progress,
             Wrong wrong);
  PackedText(const PackedText&) = delete;
  PackedText& operator=(const PackedText&) = delete;
  ~PackedText() { gzclose(file_); }

  /// The next character; NUL at the end.
  Ch Peek() {
    if (at_ == end_) [[unlikely]]
      fill();
    return at_ == end_ ? '\0' : *at_;
  }
  Ch Take() {
    const Ch taken = Peek();
    if (at_ != end_) ++at_;
    return taken;
  }
  std::size_t Tell() const { return passed_ + static_cast<std::size_t>(at_ - buffer_.data()); }

  // RapidJSON asks every stream for what writes in place, too.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  std::size_t PutEnd(Ch*) { return 0; }

  /// A NUL of the text is no end.
  bool has_ended() { return Peek() == '\0' && at_ == end_; }
  /// Says that a token has ended: RapidJSON keeps each in memory, and so there is a most.
  void pass_token() { token_ = Tell(); }
  [[noreturn]] void fail(const std::string& message) const { throw wrong_(Tell(), message); }

 private:
  void fill();

  gzFile file_;
  std::string name_;
  const std::function<void(double)>& progress_;
  Wrong wrong_;
  std::vector<char> buffer_;
  const char* at_;
  const char* end_;
  std::size_t passed_ = 0;  ///< bytes in front of the buffer
  std::size_t token_ = 0;   ///< where the token begins
};

}  // namespace rehearse::inline foreign
