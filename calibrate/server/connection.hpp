#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/message.hpp"
#include "server/socket.hpp"

namespace rehearse::inline calibrate {

/// The server's end of one worker's connection: messages in parts, neither read nor write waits.
class Connection {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  bool open() const { return open_; }
  void close() { open_ = false; }
  /// Not a worker's: it said something else than a message, or more than `largest` bytes.
  bool garbled() const { return garbled_; }
  bool wants_to_send() const { return !outgoing_.empty(); }

  struct Message {
    Header header;
    std::vector<std::byte> body;
  };
  /// Memory that a peer's word is enough for; beyond it, what comes makes room.
  static constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 20;

  /// Reads what is there; a whole message once one is complete. `largest`: bytes of a body, of
  /// which `at_once` may be allocated before they come.
  std::optional<Message> receive(std::uint64_t largest, std::uint64_t at_once = kAtOnce);

  using Body = std::shared_ptr<const std::vector<std::byte>>;
  /// Queues a message and sends what the socket takes.
  void send(Header header, Body body);
  /// Sends more of what is queued.
  void flush();

  std::uint64_t received() const { return received_; }
  std::uint64_t sent() const { return sent_; }

 private:
  struct Outgoing {
    Header header;
    Body body;
    std::size_t done = 0;  ///< bytes of header and body that are sent
  };
  bool fill(std::span<std::byte> bytes, std::size_t& done);

  Socket socket_;
  bool open_ = true;
  bool garbled_ = false;
  Message incoming_;
  std::size_t header_done_ = 0, body_done_ = 0;
  std::deque<Outgoing> outgoing_;
  std::uint64_t received_ = 0, sent_ = 0;
};

}  // namespace rehearse::inline calibrate
