#include "launch/team_link.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <span>
#include <thread>

#include "base/error.hpp"
#include "server/socket_address.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::chrono::milliseconds kTurn(20);
/// How long a failing side tries to tell the other why.
constexpr Seconds kFarewell(2);
/// In place of 1, for an end that is complete.
constexpr std::uint64_t kFollows = 2;
constexpr std::uint64_t kLongestText = std::uint64_t{1} << 32;

Connection::Body body_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

std::string text_of(const Connection::Message& message) {
  return {reinterpret_cast<const char*>(message.body.data()), message.body.size()};
}

Header header_of(MessageKind kind, int rank) {
  Header header;
  header.kind = kind;
  header.worker = static_cast<std::uint32_t>(rank);
  return header;
}

void finish_sending(Connection& connection) {
  const Deadline deadline(kFarewell);
  while (connection.open() && connection.wants_to_send() && !deadline.passed()) {
    connection.flush();
    if (connection.wants_to_send()) std::this_thread::sleep_for(kTurn);
  }
}

Endpoint master_of(const RankEnvironment& self) {
  return {self.master_address, static_cast<std::uint16_t>(self.master_port)};
}

/// The one address at which all ranks can come; empty where that is not known: a name of several
/// addresses, or of the loopback though there are other nodes (Debian names a host 127.0.1.1).
std::string address_to_listen_at(const RankEnvironment& self) {
  if (self.local_world_size == self.world_size) return self.master_address;
  const std::vector<std::string> all = addresses_of(self.master_address);
  if (all.size() != 1 || is_loopback(all.front()) || !is_own_address(all.front())) return "";
  return all.front();
}

Socket listen_as_master(const RankEnvironment& self) {
  try {
    return listen_on({address_to_listen_at(self), static_cast<std::uint16_t>(self.master_port)});
  } catch (const MissingError& error) {
    throw MissingError(
        fmt::format("{}\nremedy: set MASTER_PORT to a free port on every node", error.what()));
  }
}

/// What TeamStart says as text.
std::string text_of(const TeamStart& start) { return start.store_file + "\n" + start.announced; }

}  // namespace

TeamHub::TeamHub(const RankEnvironment& self, Seconds limit)
    : world_size_(self.world_size),
      connections_(static_cast<std::size_t>(self.world_size)),
      ends_(static_cast<std::size_t>(self.world_size)) {
  if (world_size_ > 1) meet(listen_as_master(self), limit);
}

void TeamHub::meet(const Socket& listening, Seconds limit) {
  const Deadline deadline(limit);
  struct Guest {
    Connection connection;
    std::string own_host, peer_host;
  };
  std::list<Guest> guests;
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int r = 1; r < world_size_; ++r) {
      if (!connections_[static_cast<std::size_t>(r)]) ranks.push_back(r);
    }
    return ranks;
  };
  while (!missing().empty()) {
    if (deadline.passed()) {
      const std::string text =
          fmt::format("error: {} {} of {} did not come to port {} within {}",
                      missing().size() == 1 ? "rank" : "ranks", fmt::join(missing(), ", "),
                      world_size_, port_of(listening), format(limit));
      tell_failure(text);
      throw MissingError(text);
    }
    for (Socket socket = accept_from(listening); socket.descriptor() >= 0;
         socket = accept_from(listening)) {
      watch_peer(socket);
      const std::string own = own_host(socket), peer = peer_host(socket);
      guests.push_back({Connection(std::move(socket)), own, peer});
    }
    for (auto guest = guests.begin(); guest != guests.end();) {
      int rank = 0;
      const bool greeted = greet(guest->connection, rank);
      // A peer on another node knows this one by an address that others can use, too.
      if (greeted && (own_address_.empty() || guest->own_host != guest->peer_host)) {
        own_address_ = guest->own_host;
      }
      if (greeted) {
        const bool first = std::ranges::none_of(connections_, [](const auto& c) { return !!c; });
        if (first) common_address_ = guest->own_host;
        if (common_address_ != guest->own_host) common_address_.clear();
        connections_[static_cast<std::size_t>(rank)] =
            std::make_unique<Connection>(std::move(guest->connection));
      }
      guest = greeted || !guest->connection.open() ? guests.erase(guest) : std::next(guest);
    }
    receive();
    if (any_failed()) {
      const std::size_t lost = first_cause(ends_);
      const std::string text =
          fmt::format("error: rank {} of {} was gone before all had come", lost, world_size_);
      tell_failure(text);
      throw MissingError(text);
    }
    std::this_thread::sleep_for(kTurn);
  }
}

/// Whether this connection is of a rank that was awaited.
bool TeamHub::greet(Connection& connection, int& rank) {
  const auto hello = connection.receive(0);  // which has no body
  if (!hello) return false;
  rank = static_cast<int>(hello->header.worker);
  const bool known = hello->header.kind == MessageKind::hello && rank > 0 && rank < world_size_;
  if (known && static_cast<int>(hello->header.version) == world_size_ &&
      !connections_[static_cast<std::size_t>(rank)]) {
    return true;
  }
  const std::string reason =
      known ? fmt::format(
                  "error: a second rank {}, or one that counts {} ranks, came to rank 0 of {}",
                  rank, hello->header.version, world_size_)
            : "error: what came to rank 0 is no rank";
  connection.send(header_of(MessageKind::failure, 0), body_of(reason));
  finish_sending(connection);
  connection.close();
  return false;
}

void TeamHub::tell_start(const TeamStart& start) {
  tell_all(MessageKind::begin, text_of(start), static_cast<std::uint64_t>(start.store_port));
}

void TeamHub::receive() {
  for (std::size_t r = 1; r < connections_.size(); ++r) {
    if (!connections_[r] || ends_[r].ended) continue;
    const auto message = connections_[r]->receive(kLongestText);
    RankEnd& end = ends_[r];
    if (message && message->header.kind == MessageKind::result) {
      end.ended = true;
      end.status = static_cast<int>(message->header.version);
      end.complete = message->header.iteration != 0;
      end.follows = message->header.iteration == kFollows;
      end.text = text_of(*message);
    } else if (!connections_[r]->open()) {
      end.ended = end.lost = true;
    }
    if (end.ended) end.when = std::chrono::steady_clock::now();
  }
}

bool TeamHub::all_ended() const {
  return std::all_of(ends_.begin() + 1, ends_.end(), [](const RankEnd& end) { return end.ended; });
}

bool TeamHub::any_failed() const { return std::ranges::any_of(ends_, &RankEnd::failed); }

void TeamHub::tell_done() { tell_all(MessageKind::done, {}, 0); }

void TeamHub::tell_failure(const std::string& text) { tell_all(MessageKind::failure, text, 0); }

void TeamHub::tell_all(MessageKind kind, const std::string& text, std::uint64_t number) {
  Header header = header_of(kind, 0);
  header.version = number;
  const Connection::Body body = body_of(text);
  for (const auto& connection : connections_) {
    if (connection && connection->open()) connection->send(header, body);
  }
  for (const auto& connection : connections_) {
    if (connection) finish_sending(*connection);
  }
}

TeamSpoke::TeamSpoke(const RankEnvironment& self, Seconds limit) : self_(self) {
  Socket socket;
  try {
    socket = connect_to(master_of(self), Deadline(limit));
  } catch (const MissingError& error) {
    throw MissingError(fmt::format(
        "{} (by rank {} of {})\nremedy: start rank 0, and let MASTER_ADDR and MASTER_PORT name its "
        "node on every node",
        error.what(), self.rank, self.world_size));
  }
  watch_peer(socket);
  own_address_ = own_host(socket);
  connection_ = std::make_unique<Connection>(std::move(socket));
  Header hello = header_of(MessageKind::hello, self.rank);
  hello.version = static_cast<std::uint64_t>(self.world_size);
  connection_->send(hello, nullptr);
}

TeamStart TeamSpoke::await_start(Seconds limit) {
  const Deadline deadline(limit);
  while (!deadline.passed()) {
    if (const auto message = receive()) {
      const std::string text = text_of(*message);
      const std::size_t end = std::min(text.find('\n'), text.size());
      return {static_cast<int>(message->header.version), text.substr(0, end),
              text.substr(std::min(end + 1, text.size()))};
    }
    std::this_thread::sleep_for(kTurn);
  }
  throw MissingError(
      fmt::format("error: rank {} of {} met rank 0, and the others did not within {}", self_.rank,
                  self_.world_size, format(limit)));
}

void TeamSpoke::tell_end(const RankEnd& end) {
  Header header = header_of(MessageKind::result, self_.rank);
  header.version = static_cast<std::uint64_t>(end.status);
  header.iteration = end.follows ? kFollows : end.complete ? 1 : 0;
  connection_->send(header, body_of(end.text));
}

bool TeamSpoke::is_done() {
  connection_->flush();
  const auto message = receive();
  return message && message->header.kind == MessageKind::done;
}

std::optional<Connection::Message> TeamSpoke::receive() {
  auto message = connection_->receive(kLongestText);
  if (message && message->header.kind == MessageKind::failure) {
    throw MissingError(text_of(*message) + " (told by rank 0)");
  }
  if (!message && !connection_->open()) {
    throw MissingError(fmt::format(
        "error: rank 0 of {} is gone, its process killed or its node unreachable (seen by rank {})",
        self_.world_size, self_.rank));
  }
  return message;
}

}  // namespace rehearse::inline calibrate
