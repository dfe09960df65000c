#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/socket.hpp"

namespace rehearse::inline calibrate {

/// The addresses, in digits, that a host's name stands for. MissingError if it is not known.
std::vector<std::string> addresses_of(const std::string& host);
/// Whether an address is one that only this machine reaches: 127.x.x.x or ::1.
bool is_loopback(const std::string& address);
/// Whether an address is of one of this machine's interfaces.
bool is_own_address(const std::string& address);

/// The numeric address of this end of a connection: what this node is called on the network that
/// the connection goes over.
std::string own_host(const Socket& connected);
/// The other end's.
std::string peer_host(const Socket& connected);

/// The numeric address of a network interface of this node, such as "eth0"; nothing where there is
/// none of that name, or it has no address.
std::optional<std::string> interface_host(const std::string& interface);

/// Lets the kernel find within half a minute that the peer's node is gone without a word.
void watch_peer(const Socket& connected);

}  // namespace rehearse::inline calibrate
