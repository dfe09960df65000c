#pragma once

#include <compare>
#include <string>

namespace rehearse::inline base {

/// A number with a physical unit, held in the unit's SI base (seconds, bytes, FLOP, and their
/// rates). The unit is part of the type, so that a size is never passed where a time is meant.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  /// The bare number in the base unit; only for places where numbers leave (engine, fit, writers).
  constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value_ *= factor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.value_ / divisor);
  }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using Flops = Quantity<struct FlopsTag>;  ///< a count of floating-point operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  ///< a rate of floating-point operations

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(size.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes size, Seconds time) {
  return BytesPerSecond(size.value() / time.value());
}
constexpr Bytes operator*(BytesPerSecond rate, Seconds time) {
  return Bytes(rate.value() * time.value());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.value() / rate.value());
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return FlopsPerSecond(work.value() / time.value());
}

/// "12.3 ms", "4.56 s", "2 h 05 min": three significant digits with the unit that suits the size.
std::string format(Seconds time);
/// "25.0 MiB", binary prefixes.
std::string format(Bytes size);
/// "12.5 GB/s", decimal prefixes.
std::string format(BytesPerSecond rate);
/// "4.12 GFLOP".
std::string format(Flops work);
/// "312 TFLOP/s".
std::string format(FlopsPerSecond rate);

/// Each parses a number followed by its unit, and throws std::invalid_argument whose text says what
/// was expected, such as `expected a time with its unit, such as "5us" or "1.5ms"`. Times: ns us ms
/// s min h. A bare number is an error, except 0.
Seconds parse_seconds(const std::string& text);
/// Sizes: B, kB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers of 1024).
Bytes parse_bytes(const std::string& text);
/// Rates: the sizes followed by "ps" or "/s" in bytes (`300GBps`, `300GB/s`), or bits (`25Gbps`,
/// `25Gbit/s`).
BytesPerSecond parse_bytes_per_second(const std::string& text);
/// Work: FLOP with decimal prefixes (`4.1GFLOP`).
Flops parse_flops(const std::string& text);
/// Arithmetic rates: `19.5TFLOPs`, `19.5TFLOP/s`.
FlopsPerSecond parse_flops_per_second(const std::string& text);

}  // namespace rehearse::inline base
