#include "server/parameter_client.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "server/connection.hpp"
#include "server/peer_error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// A failure is told in a line or two.
constexpr std::uint64_t kLongestReason = 4096;

/// Why the server ended the connection, where it still says so.
std::string farewell(const Socket& socket, const Deadline& deadline, const std::string& name) {
  Header header;
  receive_all(socket, writable_bytes_of(header), deadline, name);
  while (header.magic == Header::kMagic && header.kind == MessageKind::parameters) {
    std::vector<std::byte> skipped(std::min(header.size, Connection::kAtOnce));
    for (std::uint64_t left = header.size; left > 0; left -= skipped.size()) {
      skipped.resize(std::min<std::uint64_t>(left, skipped.size()));
      receive_all(socket, skipped, deadline, name);
    }
    receive_all(socket, writable_bytes_of(header), deadline, name);
  }
  if (header.magic != Header::kMagic || header.kind != MessageKind::failure) return {};
  std::string text(std::min(header.size, kLongestReason), '\0');
  receive_all(socket, std::as_writable_bytes(std::span(text)), deadline, name);
  return text;
}

}  // namespace

ParameterClient::ParameterClient(const std::vector<Endpoint>& servers,
                                 const ParameterClientOptions& options,
                                 std::span<const std::byte> parameters)
    : options_(options), size_(parameters.size()) {
  check(!servers.empty(), "a client has a server");
  const std::size_t elements = parameters.size() / size_of(options.element);
  const Deadline deadline(options.connect_timeout);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const std::size_t first = elements * s / servers.size();
    const std::size_t last = elements * (s + 1) / servers.size();
    const std::size_t width = size_of(options.element);
    servers_.push_back({fmt::format("the server at {}", to_string(servers[s])),
                        connect_to(servers[s], deadline), first * width, (last - first) * width, 0,
                        0});
  }
  for (Server& server : servers_) {
    Header hello;
    hello.kind = MessageKind::hello;
    hello.element_size = static_cast<std::uint32_t>(options.element);
    hello.version = server.size / size_of(options.element);
    const bool brings = options.worker == 0;
    send(server, hello,
         brings ? parameters.subspan(server.offset, server.size) : parameters.first(0));
  }
}

std::optional<std::uint64_t> ParameterClient::pull(std::span<std::byte> parameters) {
  check(parameters.size() == size_, "the parameters keep their size");
  Header request;
  request.kind = MessageKind::pull;
  for (Server& server : servers_) send(server, request, {});
  for (Server& server : servers_) receive(server, parameters.subspan(server.offset, server.size));
  const std::uint64_t iteration = servers_.front().iteration;
  for (const Server& server : servers_) {
    check(server.iteration == iteration, "all servers are in the same iteration");
  }
  if (iteration >= options_.iterations) return std::nullopt;
  return iteration;
}

void ParameterClient::push(std::span<const std::byte> gradient) {
  check(gradient.size() == size_, "a gradient is as long as the parameters");
  for (Server& server : servers_) {
    Header header;
    header.kind = MessageKind::push;
    header.iteration = server.iteration;
    header.version = server.version;
    send(server, header, gradient.subspan(server.offset, server.size));
  }
}

void ParameterClient::done() {
  Header header;
  header.kind = MessageKind::done;
  for (Server& server : servers_) send(server, header, {});
}

void ParameterClient::send(Server& server, const Header& header, std::span<const std::byte> body) {
  Header complete = header;
  complete.worker = options_.worker;
  complete.size = body.size();
  try {
    send_all(server.socket, bytes_of(complete), body, Deadline(options_.reply_timeout),
             server.name);
  } catch (const MissingError&) {
    fail_as_told(server);
  }
  sent_ += sizeof complete + body.size();
}

void ParameterClient::receive(Server& server, std::span<std::byte> part) {
  const Deadline deadline(options_.reply_timeout);
  Header header;
  receive_all(server.socket, writable_bytes_of(header), deadline, server.name);
  if (header.magic != Header::kMagic)
    throw MissingError(fmt::format("error: {} is none of ours", server.name));
  if (header.kind == MessageKind::failure) {
    std::string text(std::min(header.size, kLongestReason), '\0');
    receive_all(server.socket, std::as_writable_bytes(std::span(text)), deadline, server.name);
    throw PeerError(fmt::format("{} (told by {})", text, server.name));
  }
  check(header.kind == MessageKind::parameters && header.size == part.size(),
        "a pull is answered with the part's parameters");
  receive_all(server.socket, part, deadline, server.name);
  server.iteration = header.iteration;
  server.version = header.version;
  received_ += sizeof header + part.size();
}

/// The server closed the connection or takes nothing; its last words may still lie there.
void ParameterClient::fail_as_told(Server& server) {
  const std::string text = farewell(server.socket, Deadline(Seconds(1)), server.name);
  if (text.empty()) throw PeerError(fmt::format("error: {} is gone", server.name));
  throw PeerError(fmt::format("{} (told by {})", text, server.name));
}

}  // namespace rehearse::inline calibrate
