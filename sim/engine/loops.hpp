#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline engine {

/// Ports that only send to themselves: one rank of a group stands for all of it. Nothing else
/// crosses such a port, so that its flows share its rate alike, and SimGrid need not be asked.
template <class Token>
class Loops {
 public:
  /// When the next flow of a port ends; it holds while `version` is the port's latest.
  struct Alarm {
    double date = 0;
    std::uint32_t version = 0;
  };

  void add(std::uint32_t port, BytesPerSecond rate) { ports_[port].rate = rate.value(); }
  bool has(std::uint32_t port) const { return ports_.contains(port); }

  Alarm start(std::uint32_t port, Bytes size, Token token, double now) {
    Port& at = ports_.at(port);
    advance(at, now);
    at.flows.push_back({size.value(), token});
    return next(at, now);
  }

  /// Tokens of the flows that end at the alarm of a version, in the order of their starts; none for
  /// an old one. `then`: the port's next alarm.
  std::vector<Token> end(std::uint32_t port, std::uint32_t version, double now,
                         std::optional<Alarm>& then) {
    Port& at = ports_.at(port);
    std::vector<Token> over;
    if (version != at.version) return over;
    advance(at, now);
    const double least = least_left(at);
    std::erase_if(at.flows, [&](const Flow& flow) {
      if (flow.left > least + kNoBytes) return false;
      over.push_back(flow.token);
      return true;
    });
    if (!at.flows.empty()) then = next(at, now);
    return over;
  }

 private:
  static constexpr double kNoBytes = 1.0 / 65536;  ///< as Network counts

  struct Flow {
    double left = 0;  ///< bytes
    Token token;
  };
  struct Port {
    double rate = 0, since = 0;
    std::uint32_t version = 0;
    std::vector<Flow> flows{};
  };

  static double least_left(const Port& port) {
    double least = port.flows.front().left;
    for (const Flow& flow : port.flows) least = std::min(least, flow.left);
    return least;
  }
  static void advance(Port& port, double now) {
    for (Flow& flow : port.flows)
      flow.left -= (now - port.since) * port.rate / static_cast<double>(port.flows.size());
    port.since = now;
  }
  static Alarm next(Port& port, double now) {
    const double left = std::max(0.0, least_left(port)) * static_cast<double>(port.flows.size());
    return {now + left / port.rate, ++port.version};
  }

  std::map<std::uint32_t, Port> ports_;
};

}  // namespace rehearse::inline engine
