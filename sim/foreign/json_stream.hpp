#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline foreign {

/// Reads JSON of any length, token by token (RFC 8259): no more than a window of it is in memory.
/// Texts are views into the window. What the caller does not take is checked and dropped.
class JsonStream {
 public:
  /// `more` fills a buffer and says how many bytes it has written; 0 is the end. `wrong` makes an
  /// error of a byte's place and of what is wrong there.
  using More = std::function<std::size_t(char* to, std::size_t most)>;
  using Wrong = std::function<InputError(std::size_t place, const std::string& message)>;
  JsonStream(More more, Wrong wrong);

  /// The first character of the next value, white space passed: one of `{["-tfn` or a digit.
  char next();

  /// Goes into an object or a list.
  void open();
  /// Goes to the next member of an object, up to its value, and gives its key, which lasts until
  /// more is read. Gives false at the object's end, which it passes.
  bool member(std::string_view& key);
  /// Goes to the next value of a list; false at the list's end, which it passes.
  bool element();

  /// The text of a string, escapes undone. It lasts until more is read.
  std::string_view string();
  double number();
  /// Passes a value of any kind.
  void skip();

  /// Ends the document: an error if anything but white space follows.
  void end();

 private:
  enum class Place : unsigned char { first, later };

  bool more_bytes();
  char at_end(const char* what);
  char peek();
  char following();
  void expect(char wanted, const char* what);
  void literal(std::string_view word);
  bool separated(char closing);
  void skip_string();
  void escape();
  void hexadecimal(unsigned& code);
  std::string_view number_token();
  [[noreturn]] void fail(const std::string& message) const;

  More more_;
  Wrong wrong_;
  std::vector<char> buffer_;
  const char* at_ = nullptr;    ///< of the buffer: what is read next
  const char* end_ = nullptr;   ///< of the buffer: what has been filled
  const char* keep_ = nullptr;  ///< of the buffer: a token's begin, which stays in it; or none
  std::size_t passed_ = 0;      ///< bytes in front of the buffer
  std::string scratch_;         ///< a string with escapes
  std::vector<Place> nested_;
};

}  // namespace rehearse::inline foreign
