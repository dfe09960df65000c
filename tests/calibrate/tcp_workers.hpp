#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "server/parameter_client.hpp"
#include "server/parameter_server.hpp"

/// Servers in threads, and workers that train with them over real sockets.
namespace tcp {

using namespace rehearse;

inline const std::string kHost = "127.0.0.1";
/// With those that answer, however busy the machine.
constexpr Seconds kPatient{100};

/// A server in a thread of its own.
struct Running {
  Endpoint endpoint;
  std::future<ServerResult> result;
};
inline Running start(const ParameterServerOptions& options) {
  Socket listening = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(listening)};
  return {endpoint,
          std::async(std::launch::async, [options, socket = std::move(listening)]() mutable {
            return serve_parameters(std::move(socket), options);
          })};
}

inline ParameterServerOptions options_of(const UpdateRuleOptions& rule) {
  return {rule, kPatient, kPatient};
}

inline std::span<std::byte> bytes(std::vector<double>& values) {
  return std::as_writable_bytes(std::span(values));
}

inline ParameterClientOptions worker_options(std::size_t worker, std::uint64_t iterations) {
  return {static_cast<std::uint32_t>(worker), ElementType::float64, iterations, kPatient, kPatient};
}

using Gradient = std::function<std::vector<double>(std::size_t worker, std::uint64_t iteration,
                                                   const std::vector<double>& parameters)>;

/// Trains as one worker and returns the parameters as it saw them last.
inline std::vector<double> train(const std::vector<Endpoint>& servers, std::size_t worker,
                                 std::uint64_t iterations, std::vector<double> parameters,
                                 const Gradient& gradient) {
  ParameterClient client(servers, worker_options(worker, iterations), bytes(parameters));
  while (const auto iteration = client.pull(bytes(parameters))) {
    std::vector<double> step = gradient(worker, *iteration, parameters);
    client.push(bytes(step));
  }
  client.done();
  return parameters;
}

/// All workers in threads; what each saw last.
inline std::vector<std::vector<double>> train_all(const std::vector<Endpoint>& servers,
                                                  std::size_t workers, std::uint64_t iterations,
                                                  const std::vector<double>& initial,
                                                  const Gradient& gradient) {
  std::vector<std::future<std::vector<double>>> running;
  for (std::size_t w = 0; w < workers; ++w) {
    running.push_back(std::async(std::launch::async, [&, w] {
      return train(servers, w, iterations, w == 0 ? initial : std::vector<double>(initial.size()),
                   gradient);
    }));
  }
  std::vector<std::vector<double>> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

/// Pulls each parameter towards the worker's own target.
inline std::vector<double> towards(std::size_t worker, std::uint64_t,
                                   const std::vector<double>& parameters) {
  std::vector<double> gradient = parameters;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] -= static_cast<double>(worker * 10 + i);
  return gradient;
}

}  // namespace tcp
