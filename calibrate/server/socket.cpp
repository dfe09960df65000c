#include "server/socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr int kBacklog = 1024;
constexpr std::chrono::milliseconds kRetryAfter(50);

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                               std::to_string(endpoint.port).c_str(), &hints, &list);
  if (code != 0) {
    throw MissingError(
        fmt::format("error: the host \"{}\" is not known: {}", endpoint.host, gai_strerror(code)));
  }
  return Addresses(list);
}

Socket open_socket(const addrinfo& address) {
  const int descriptor =
      socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    throw MissingError(fmt::format("error: no socket can be opened: {}", std::strerror(errno)));
  }
  return Socket(descriptor);
}

/// Messages are written whole: Nagle's algorithm would only hold back their ends.
void send_at_once(const Socket& connected) {
  const int on = 1;
  setsockopt(connected.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Waits for `events`; false if the deadline passes first.
bool wait_for(const Socket& waited, short events, const Deadline& deadline) {
  pollfd one{waited.descriptor(), events, 0};
  for (;;) {
    const int ready = poll(&one, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
  }
}

/// 0, or what went wrong.
int try_to_connect(const Socket& fresh, const addrinfo& address, const Deadline& deadline) {
  if (connect(fresh.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(fresh, POLLOUT, deadline)) return ETIMEDOUT;
  int code = 0;
  socklen_t size = sizeof code;
  getsockopt(fresh.descriptor(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

[[noreturn]] void fail_to_listen(const Endpoint& endpoint) {
  const std::string reason =
      errno == EADDRINUSE ? "another program listens there" : std::strerror(errno);
  throw MissingError(fmt::format("error: cannot listen at {}: {}", to_string(endpoint), reason));
}

Socket bound_to(const Endpoint& endpoint) {
  const Addresses addresses = resolve(endpoint, AI_PASSIVE);
  Socket fresh = open_socket(*addresses);
  const int on = 1;
  setsockopt(fresh.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fresh.descriptor(), addresses->ai_addr, addresses->ai_addrlen) != 0) {
    fail_to_listen(endpoint);
  }
  return fresh;
}

[[noreturn]] void fail_to_connect(const Endpoint& endpoint, const Deadline& deadline, int code) {
  const std::string tried =
      fmt::format("{} (tried for {})", to_string(endpoint), format(deadline.limit()));
  if (code == ECONNREFUSED) throw MissingError("error: nothing listens at " + tried);
  throw MissingError(fmt::format("error: {} cannot be reached: {}", tried, std::strerror(code)));
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  return fmt::format("{}:{}", endpoint.host, endpoint.port);
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Socket listen_on(const Endpoint& endpoint) {
  Socket listening = bound_to(endpoint);
  if (listen(listening.descriptor(), kBacklog) != 0) fail_to_listen(endpoint);
  return listening;
}

Socket bind_to(const Endpoint& endpoint) { return bound_to(endpoint); }

// Linux lets sockets that all may reuse an address share it until one of them listens, and hands
// out no port that any of them has.
Socket reserve_port() { return bound_to({"", 0}); }

std::uint16_t port_of(const Socket& bound) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  check(getsockname(bound.descriptor(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
        "a bound socket has an address");
  const bool version_6 = address.ss_family == AF_INET6;
  return ntohs(version_6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                         : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Socket accept_from(const Socket& listening) {
  Socket accepted(accept4(listening.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.descriptor() >= 0) send_at_once(accepted);
  return accepted;
}

Socket connect_to(const Endpoint& endpoint, const Deadline& deadline) {
  const Addresses addresses = resolve(endpoint, 0);
  for (;;) {
    int code = ECONNREFUSED;
    for (const addrinfo* one = addresses.get(); one; one = one->ai_next) {
      Socket fresh = open_socket(*one);
      code = try_to_connect(fresh, *one, deadline);
      if (code != 0) continue;
      send_at_once(fresh);
      return fresh;
    }
    if (deadline.passed()) fail_to_connect(endpoint, deadline, code);
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(
        kRetryAfter, std::chrono::milliseconds(deadline.left_ms())));
  }
}

Transferred send_some(const Socket& socket, std::span<const std::byte> head,
                      std::span<const std::byte> body) {
  std::array<iovec, 2> parts = {iovec{const_cast<std::byte*>(head.data()), head.size()},
                                iovec{const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = sendmsg(socket.descriptor(), &message, MSG_NOSIGNAL);
  if (sent >= 0) return {static_cast<std::size_t>(sent), true};
  return {0, must_wait()};
}

Transferred receive_some(const Socket& socket, std::span<std::byte> bytes) {
  const ssize_t received = recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
  if (received > 0) return {static_cast<std::size_t>(received), true};
  return {0, received < 0 && must_wait()};
}

void send_all(const Socket& socket, std::span<const std::byte> head,
              std::span<const std::byte> body, const Deadline& deadline, const std::string& peer) {
  while (!head.empty() || !body.empty()) {
    const Transferred sent = send_some(socket, head, body);
    if (!sent.open) throw MissingError(fmt::format("error: {} is gone", peer));
    const std::size_t of_head = std::min(sent.bytes, head.size());
    head = head.subspan(of_head);
    body = body.subspan(sent.bytes - of_head);
    if (sent.bytes == 0 && !wait_for(socket, POLLOUT, deadline)) {
      throw MissingError(
          fmt::format("error: {} took nothing within {}", peer, format(deadline.limit())));
    }
  }
}

void receive_all(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline,
                 const std::string& peer) {
  while (!bytes.empty()) {
    const Transferred received = receive_some(socket, bytes);
    if (!received.open) throw MissingError(fmt::format("error: {} is gone", peer));
    bytes = bytes.subspan(received.bytes);
    if (received.bytes == 0 && !wait_for(socket, POLLIN, deadline)) {
      throw MissingError(
          fmt::format("error: {} was silent for {}", peer, format(deadline.limit())));
    }
  }
}

}  // namespace rehearse::inline calibrate
