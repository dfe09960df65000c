#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace rehearse::inline calibrate {

/// Messages between workers and servers, and between the processes that a launcher started. Each
/// message is a Header, then `size` bytes.
enum class MessageKind : std::uint32_t {
  hello = 1,   ///< worker, rank: who it is; the first worker brings the initial parameters
  pull,        ///< worker: asks for the parameters, answered when the mode allows
  push,        ///< worker: a gradient and the version that it was computed on
  done,        ///< worker: it sends nothing more; rank 0: it has all results
  parameters,  ///< server: the answer to a pull
  failure,     ///< server, rank 0: why it gives up, as text
  begin,       ///< rank 0: all are there; what all must know, as text
  result,      ///< rank: how its work ended
};

/// The head of a message, in the byte order of the machine: one kind of machine trains together,
/// and `magic` tells when it does not.
struct Header {
  static constexpr std::uint32_t kMagic = 0x52505331;

  std::uint32_t magic = kMagic;
  MessageKind kind = MessageKind::hello;
  std::uint32_t worker = 0;
  std::uint32_t element_size = 0;  ///< hello: 4 for float, 8 for double
  std::uint64_t iteration = 0;     ///< push: of the gradient; parameters: to be computed next
  std::uint64_t version = 0;       ///< updates applied to the parameters; hello: their number
  std::uint64_t size = 0;          ///< bytes that follow
};
static_assert(sizeof(Header) == 40 && std::is_trivially_copyable_v<Header>);

inline std::span<const std::byte> bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}
inline std::span<std::byte> writable_bytes_of(Header& header) {
  return std::as_writable_bytes(std::span(&header, 1));
}

}  // namespace rehearse::inline calibrate
