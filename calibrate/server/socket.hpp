#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "server/deadline.hpp"

namespace rehearse::inline calibrate {

/// Where a server listens.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};
std::string to_string(const Endpoint& endpoint);

/// An open socket; closed with the object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }
  /// Gives the descriptor away.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// Listens on `endpoint`; port 0 takes a free one. MissingError if the port is in use or the host
/// is not of this machine.
Socket listen_on(const Endpoint& endpoint);

/// Bound to `endpoint` only, for somebody else to listen.
Socket bind_to(const Endpoint& endpoint);

/// A free port at every address of this machine: nobody else is given it as long as the socket
/// lives, connections to it are refused, and one program that names it may listen there.
/// MissingError if none is to be had.
Socket reserve_port();

/// The port that a socket listens on, or reserves.
std::uint16_t port_of(const Socket& socket);

/// The next connection that waits at a listening socket, non-blocking; without a descriptor if none
/// does.
Socket accept_from(const Socket& listening);

/// Connects, again and again while nothing listens yet. MissingError that names the endpoint when
/// the time is over.
Socket connect_to(const Endpoint& endpoint, const Deadline& deadline);

/// Sends all of `head` and `body`. MissingError that names `peer` if it is gone or takes nothing in
/// time.
void send_all(const Socket& socket, std::span<const std::byte> head,
              std::span<const std::byte> body, const Deadline& deadline, const std::string& peer);

/// Fills `bytes`. MissingError that names `peer` if it is gone or silent.
void receive_all(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline,
                 const std::string& peer);

/// Sends or receives what is possible now. Nothing where the socket must be waited for; false in
/// `open` where the peer is gone.
struct Transferred {
  std::size_t bytes = 0;
  bool open = true;
};
Transferred send_some(const Socket& socket, std::span<const std::byte> head,
                      std::span<const std::byte> body);
Transferred receive_some(const Socket& socket, std::span<std::byte> bytes);

}  // namespace rehearse::inline calibrate
