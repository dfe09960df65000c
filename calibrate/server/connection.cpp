#include "server/connection.hpp"

#include <algorithm>
#include <utility>

namespace rehearse::inline calibrate {

/// Whether `bytes` is full now.
bool Connection::fill(std::span<std::byte> bytes, std::size_t& done) {
  while (done < bytes.size()) {
    const Transferred progress = receive_some(socket_, bytes.subspan(done));
    open_ = progress.open;
    done += progress.bytes;
    received_ += progress.bytes;
    if (progress.bytes == 0) return false;
  }
  return true;
}

std::optional<Connection::Message> Connection::receive(std::uint64_t largest,
                                                       std::uint64_t at_once) {
  if (!fill(writable_bytes_of(incoming_.header), header_done_)) return std::nullopt;
  const Header& header = incoming_.header;
  if (header.magic != Header::kMagic || header.size > largest) {
    garbled_ = true;
    open_ = false;
    return std::nullopt;
  }
  for (std::vector<std::byte>& body = incoming_.body; body_done_ < header.size;) {
    if (body.size() == body_done_)
      body.resize(std::min(header.size, std::max<std::uint64_t>(2 * body_done_, at_once)));
    if (!fill(body, body_done_)) return std::nullopt;
  }
  header_done_ = body_done_ = 0;
  return std::exchange(incoming_, Message{});
}

void Connection::send(Header header, Body body) {
  header.size = body ? body->size() : 0;
  outgoing_.push_back({header, std::move(body), 0});
  flush();
}

void Connection::flush() {
  while (open_ && !outgoing_.empty()) {
    Outgoing& next = outgoing_.front();
    const std::size_t of_header = std::min(next.done, sizeof(Header));
    const auto head = bytes_of(next.header).subspan(of_header);
    const auto body = next.body ? std::span(*next.body).subspan(next.done - of_header)
                                : std::span<const std::byte>{};
    const Transferred progress = send_some(socket_, head, body);
    open_ = progress.open;
    next.done += progress.bytes;
    sent_ += progress.bytes;
    if (next.done == sizeof(Header) + next.header.size) outgoing_.pop_front();
    if (progress.bytes == 0) return;
  }
}

}  // namespace rehearse::inline calibrate
