#include "server/socket_address.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int code = getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  check(code == 0, "a socket's address can be written");
  const std::string host = text.data();
  // An IPv4 connection to a socket that listens for both.
  const std::string mapped = "::ffff:";
  return host.rfind(mapped, 0) == 0 ? host.substr(mapped.size()) : host;
}

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

}  // namespace

std::string own_host(const Socket& connected) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  check(getsockname(connected.descriptor(), plain, &size) == 0, "a connection has two ends");
  return numeric(plain, size);
}

std::string peer_host(const Socket& connected) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(connected.descriptor(), plain, &size) != 0) return {};  // closed by now
  return numeric(plain, size);
}

std::vector<std::string> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (code != 0) {
    throw MissingError(
        fmt::format("error: the host \"{}\" is not known: {}", host, gai_strerror(code)));
  }
  std::vector<std::string> all;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next)
    all.push_back(numeric(one->ai_addr, one->ai_addrlen));
  freeaddrinfo(list);
  return all;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

bool is_own_address(const std::string& address) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, FreeInterfaces> list(first);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (numeric(one->ifa_addr, size) == address) return true;
  }
  return false;
}

std::optional<std::string> interface_host(const std::string& interface) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, FreeInterfaces> list(first);
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family) continue;
      if (interface == one->ifa_name) return numeric(one->ifa_addr, size);
    }
  }
  return std::nullopt;
}

void watch_peer(const Socket& connected) {
  constexpr int kIdleSeconds = 10, kProbeSeconds = 5, kProbes = 4;
  const int on = 1;
  const int descriptor = connected.descriptor();
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof kProbeSeconds);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

}  // namespace rehearse::inline calibrate
