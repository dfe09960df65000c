#pragma once

#include <cstdint>
#include <string_view>

namespace rehearse::inline base {

/// SplitMix64 as a UniformRandomBitGenerator: tiny, seedable from any 64 bits, the same on every
/// machine. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014.
class RandomStream {
 public:
  using result_type = std::uint64_t;
  explicit RandomStream(std::uint64_t state) : state_(state) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();

 private:
  std::uint64_t state_;
};

/// The stream that belongs to a name and two indices, such as ("jitter", rank, iteration): what one
/// consumer draws never shifts what another draws. Same seed and name, same numbers.
RandomStream random_stream(std::uint64_t seed, std::string_view name, std::uint64_t first = 0,
                           std::uint64_t second = 0);

/// A uniform number in [0, 1) with 53 random bits.
double uniform01(RandomStream& stream);

}  // namespace rehearse::inline base
