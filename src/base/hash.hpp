#pragma once

#include <bit>
#include <cstdint>

namespace rehearse::inline base {

/// A hash of a sequence of numbers, the same in every process. Equal sequences have equal
/// hashes; unlike ones have not, but for a chance of about 2^-64.
class Hash {
 public:
  void add(std::uint64_t value) {
    value_ = (value_ ^ value) * 0x9E3779B97F4A7C15U;
    value_ ^= value_ >> 29U;
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace rehearse::inline base
