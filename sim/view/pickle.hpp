#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rehearse::inline view {

/// Writes Python's pickle format, protocol 2 (PEP 307; opcodes as in CPython's Lib/pickletools.py):
/// dictionaries, lists, strings, whole numbers and booleans, nested by begin and end.
class Pickle {
 public:
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void add(std::string_view text);
  void add(const char* text) { add(std::string_view(text)); }
  void add(std::int64_t number);
  void add(bool truth) { bytes_ += truth ? '\x88' : '\x89'; }

  /// A dictionary's key and its value.
  template <class T>
  void entry(std::string_view key, const T& value) {
    add(key);
    add(value);
  }

  /// The whole file, after the outermost end.
  std::string finish() const { return "\x80\x02" + bytes_ + "."; }

 private:
  std::string bytes_;
};

}  // namespace rehearse::inline view
