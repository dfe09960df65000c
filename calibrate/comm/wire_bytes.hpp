#pragma once

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// Bytes that went over this process's TCP sockets.
struct WireBytes {
  Bytes sent;
  Bytes received;
};

inline WireBytes operator-(WireBytes later, WireBytes earlier) {
  return {later.sent - earlier.sent, later.received - earlier.received};
}

/// Payload bytes that the kernel counted on the TCP sockets that are open now, those of Gloo among
/// them; headers are not in it. Take the difference of two calls with the same sockets open.
/// `sent` counts what the peer acknowledged, which may lag by the last segment.
WireBytes wire_bytes();

}  // namespace rehearse::inline calibrate
