#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/message.hpp"
#include "server/sgd_parameters.hpp"
#include "server/socket.hpp"

namespace rehearse::inline calibrate {

struct ParameterClientOptions {
  std::uint32_t worker = 0;
  ElementType element = ElementType::float32;
  std::uint64_t iterations = 1;  ///< of this worker; synchronous: rounds
  Seconds connect_timeout{30};
  Seconds reply_timeout{300};  ///< of one message, the wait for others included
};

/// A worker's end of a parameter server: one flat buffer, cut into equal parts over the servers.
/// Every wait is bounded; MissingError names the server that is gone or what it reports.
class ParameterClient {
 public:
  /// Connects to all servers. `parameters` are the initial ones; those of worker 0 count.
  ParameterClient(const std::vector<Endpoint>& servers, const ParameterClientOptions& options,
                  std::span<const std::byte> parameters);

  /// Reads the parameters as soon as the mode allows. Nothing after the last iteration (the
  /// parameters are read then, too), else the iteration to compute.
  std::optional<std::uint64_t> pull(std::span<std::byte> parameters);

  /// Sends the gradient of the iteration that was pulled.
  void push(std::span<const std::byte> gradient);

  /// Says goodbye: the servers wait for this worker no more.
  void done();

  Bytes sent() const { return Bytes(static_cast<double>(sent_)); }
  Bytes received() const { return Bytes(static_cast<double>(received_)); }

 private:
  struct Server {
    std::string name;
    Socket socket;
    std::size_t offset = 0, size = 0;          ///< of its part, in bytes
    std::uint64_t iteration = 0, version = 0;  ///< as last pulled
  };
  void send(Server& server, const Header& header, std::span<const std::byte> body);
  void receive(Server& server, std::span<std::byte> part);
  [[noreturn]] void fail_as_told(Server& server);

  ParameterClientOptions options_;
  std::vector<Server> servers_;
  std::size_t size_ = 0;
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace rehearse::inline calibrate
