#include "server/parameter_server.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <string_view>

#include "base/error.hpp"
#include "server/connection.hpp"
#include "server/peer_error.hpp"

namespace rehearse::inline calibrate {
namespace {

/// What the first worker may bring at most: a server's part of the parameters.
constexpr std::uint64_t kLargestPart = std::uint64_t{1} << 40;
/// How long a failing server tries to tell the others why.
constexpr Seconds kFarewell(2);

class Server {
 public:
  Server(Socket listening, const ParameterServerOptions& options)
      : listening_(std::move(listening)),
        options_(options),
        rule_(options.rule),
        workers_(static_cast<std::size_t>(options.rule.workers)),
        deadline_(options.join_timeout) {}

  ServerResult run() {
    try {
      while (!all_done()) turn();
      if (observed_ != rule_.version()) observe();
      finish_sending(Deadline(options_.silence_timeout));
    } catch (const Error& error) {
      tell_all(error.what());
      throw;
    }
    return {rule_.log(), rule_.dropped(), Bytes(static_cast<double>(received_)),
            Bytes(static_cast<double>(sent_))};
  }

 private:
  struct Worker {
    Connection* connection = nullptr;
    bool waits = false;  ///< for the answer to its pull
    bool done = false;
  };
  using Clock = std::chrono::steady_clock;

  bool all_done() const {
    return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.done; });
  }
  bool all_joined() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& w) { return w.connection; });
  }

  /// One wait, and what came of it.
  void turn() {
    if (!wait()) fail_for_silence();
    if (waited_.front().revents != 0) accept_all();
    std::size_t index = 1;
    for (auto connection = connections_.begin();
         connection != connections_.end() && index < waited_.size(); ++connection, ++index) {
      if (waited_[index].revents != 0) serve(*connection);
    }
    connections_.remove_if([&](const Connection& connection) {
      if (connection.open()) return false;
      lose(connection);
      return true;
    });
  }

  /// False if nothing came in time.
  bool wait() {
    waited_.assign(1, {listening_.descriptor(), POLLIN, 0});
    for (const Connection& connection : connections_) {
      const short events = connection.wants_to_send() ? POLLIN | POLLOUT : POLLIN;
      waited_.push_back({connection.descriptor(), events, 0});
    }
    const int ready = poll(waited_.data(), waited_.size(), deadline_.left_ms());
    return ready != 0 || !deadline_.passed();
  }

  void accept_all() {
    for (Socket accepted = accept_from(listening_); accepted.descriptor() >= 0;
         accepted = accept_from(listening_)) {
      connections_.emplace_back(std::move(accepted));
    }
  }

  void serve(Connection& connection) {
    connection.flush();
    const std::uint64_t largest = part_size_.value_or(kLargestPart);
    // Who was greeted sends whole parts, and is worth the memory.
    const std::uint64_t at_once = worker_of(connection) ? largest : Connection::kAtOnce;
    while (auto message = connection.receive(largest, at_once)) {
      take(connection, std::move(*message));
      if (all_joined()) deadline_ = Deadline(options_.silence_timeout);
    }
  }

  void take(Connection& connection, Connection::Message message) {
    const auto worker = worker_of(connection);
    if (message.header.kind == MessageKind::hello) {
      greet(connection, message);
    } else if (!worker) {
      connection.close();
    } else if (message.header.kind == MessageKind::push) {
      if (message.body.size() != part_size_) fail_of(*worker, "pushed a gradient of another size");
      rule_.push(
          {*worker, message.header.iteration, message.header.version, std::move(message.body)},
          Seconds(std::chrono::duration<double>(Clock::now() - began_).count()));
      if (observed_ != rule_.version() && rule_.version() % options_.observe_every == 0) observe();
    } else if (message.header.kind == MessageKind::pull) {
      workers_[*worker].waits = true;
    } else if (message.header.kind == MessageKind::done) {
      workers_[*worker].done = true;
      rule_.finish(*worker);
    }
    answer_pulls();
  }

  void greet(Connection& connection, const Connection::Message& hello) {
    const Header& header = hello.header;
    if (header.worker >= workers_.size() || workers_[header.worker].connection) {
      throw MissingError(fmt::format("error: {} worker {} joined a server of {} workers",
                                     header.worker < workers_.size() ? "a second" : "a",
                                     header.worker, workers_.size()));
    }
    const std::uint64_t size = header.version * header.element_size;
    if ((header.element_size != 4 && header.element_size != 8) ||
        size != part_size_.value_or(size)) {
      fail_of(header.worker,
              fmt::format("brought {} of parameters; another worker brought {}",
                          format(Bytes(static_cast<double>(size))),
                          format(Bytes(static_cast<double>(part_size_.value_or(0))))));
    }
    part_size_ = size;
    workers_[header.worker].connection = &connection;
    if (header.worker == 0) {
      if (hello.body.size() != size) fail_of(0, "brought no initial parameters");
      rule_.set_parameters(static_cast<ElementType>(header.element_size), hello.body);
    }
    if (!all_joined()) return;
    began_ = Clock::now();
    observe();
  }

  void observe() {
    observed_ = rule_.version();
    if (!options_.observe) return;
    const Seconds last = rule_.log().empty() ? Seconds(0) : rule_.log().back().applied;
    options_.observe({rule_.version(), last, *rule_.snapshot()});
  }

  void answer_pulls() {
    if (!all_joined()) return;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      if (!worker.waits) continue;
      if (rule_.may_read(w)) {
        worker.waits = false;
        Header header;
        header.kind = MessageKind::parameters;
        header.iteration = rule_.next_iteration(w);
        header.version = rule_.version();
        worker.connection->send(header, rule_.read(w));
      } else if (const auto reason = rule_.reason_stuck()) {
        throw MissingError("error: " + *reason);
      }
    }
  }

  std::optional<std::size_t> worker_of(const Connection& connection) const {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (workers_[w].connection == &connection) return w;
    }
    return std::nullopt;
  }

  /// A closed connection: nothing to a worker that was done, the end of the run for any other.
  void lose(const Connection& connection) {
    received_ += connection.received();
    sent_ += connection.sent();
    const auto worker = worker_of(connection);
    if (!worker) return;
    workers_[*worker].connection = nullptr;
    if (workers_[*worker].done) {
      workers_[*worker].connection = &gone_;
      return;
    }
    throw PeerError(fmt::format("error: worker {} {} in iteration {}", *worker,
                                connection.garbled() ? "sent what is no message" : "is gone",
                                rule_.next_iteration(*worker)));
  }

  [[noreturn]] void fail_of(std::size_t worker, const std::string& what) const {
    throw MissingError(fmt::format("error: worker {} {}", worker, what));
  }

  [[noreturn]] void fail_for_silence() const {
    std::string missing;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const bool absent =
          !workers_[w].connection || (all_joined() && !workers_[w].waits && !workers_[w].done);
      if (absent) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", w);
    }
    throw MissingError(fmt::format("error: worker {} {} {}", missing,
                                   all_joined() ? "was silent for" : "did not come within",
                                   format(deadline_.limit())));
  }

  void finish_sending(const Deadline& deadline) {
    const auto unsent = [](const Connection& c) { return c.open() && c.wants_to_send(); };
    while (std::any_of(connections_.begin(), connections_.end(), unsent) && !deadline.passed()) {
      waited_.clear();
      for (Connection& connection : connections_) {
        connection.flush();
        if (unsent(connection)) waited_.push_back({connection.descriptor(), POLLOUT, 0});
      }
      if (!waited_.empty()) poll(waited_.data(), waited_.size(), deadline.left_ms());
    }
    for (const Connection& connection : connections_) {
      received_ += connection.received();
      sent_ += connection.sent();
    }
  }

  void tell_all(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    const auto body = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    Header header;
    header.kind = MessageKind::failure;
    for (Connection& connection : connections_) {
      if (connection.open() && worker_of(connection)) connection.send(header, body);
    }
    finish_sending(Deadline(kFarewell));
  }

  Socket listening_;
  ParameterServerOptions options_;
  UpdateRule rule_;
  std::vector<Worker> workers_;
  std::list<Connection> connections_;
  std::vector<pollfd> waited_;
  std::optional<std::uint64_t> part_size_;
  Connection gone_{Socket()};  ///< stands for the connection of a worker that was done and left
  Deadline deadline_;
  Clock::time_point began_ = Clock::now();
  std::uint64_t received_ = 0, sent_ = 0;
  std::uint64_t observed_ = 0;  ///< the version that was told last
};

}  // namespace

UpdateLog updates_of(const std::vector<ServerResult>& servers) {
  std::vector<UpdateLog> logs;
  logs.reserve(servers.size());
  for (const ServerResult& server : servers) logs.push_back(server.log);
  return stalest_of(logs);
}

ServerResult serve_parameters(Socket listening, const ParameterServerOptions& options) {
  return Server(std::move(listening), options).run();
}

}  // namespace rehearse::inline calibrate
