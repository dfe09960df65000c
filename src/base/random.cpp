#include "base/random.hpp"

namespace rehearse::inline base {

namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return value;
}

}  // namespace

RandomStream::result_type RandomStream::operator()() { return mix(state_ += kGolden); }

RandomStream random_stream(std::uint64_t seed, std::string_view name, std::uint64_t first,
                           std::uint64_t second) {
  std::uint64_t state = mix(seed + kGolden) ^ hash(name);
  state = mix(state + kGolden * (first + 1));
  state = mix(state + kGolden * (second + 1));
  return RandomStream(state);
}

double uniform01(RandomStream& stream) { return static_cast<double>(stream() >> 11) * 0x1.0p-53; }

}  // namespace rehearse::inline base
