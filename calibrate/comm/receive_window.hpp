#pragma once

#include <filesystem>
#include <optional>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// Bytes that a TCP connection's receiver lets be under way at most, about: 7/8 of the memory that
/// the kernel grants its buffer (the last number of tcp_rmem). The rest is for what packets take
/// beside their payload. With 131072 bytes, Linux 6 advertised up to 115,072 to senders of large
/// segments (tcpdump). Nothing where the kernel does not say, or says what is no number.
std::optional<Bytes> largest_receive_window(
    const std::filesystem::path& tcp_rmem = "/proc/sys/net/ipv4/tcp_rmem");

}  // namespace rehearse::inline calibrate
