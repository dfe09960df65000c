#pragma once

#include <optional>
#include <string>

#include "server/socket.hpp"

namespace rehearse {

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

}  // namespace rehearse
