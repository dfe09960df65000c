#include "view/pickle.hpp"

namespace rehearse::inline view {
namespace {

/// Little-endian, as many bytes as asked.
std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xff);
  return text;
}

}  // namespace

void Pickle::add(std::string_view text) {
  bytes_ += 'X' + little_endian(text.size(), 4);  // BINUNICODE
  bytes_ += text;
}

void Pickle::add(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number == static_cast<std::int32_t>(number)) {
    bytes_ += 'J' + little_endian(bits, 4);  // BININT
  } else {
    bytes_ += "\x8a\x08" + little_endian(bits, 8);  // LONG1
  }
}

}  // namespace rehearse::inline view
