#include <fmt/format.h>

#include <algorithm>

#include "report/anatomy.hpp"

namespace rehearse::inline report {
namespace {

/// Below this ratio to the median the ranks differ by chance from step to step, and no one of them
/// is to blame.
constexpr double kUneven = 1.05;
/// A step that takes hardly longer than its batches do waits for them.
constexpr double kLoadBound = 0.98;

/// "62 %" of the step.
std::string share(Seconds part, const Anatomy& anatomy) {
  return fmt::format("{:.0f} %", 100 * (part / anatomy.step));
}

/// Names of what is exposed, the largest first, down to a fifth of the largest: "pull and push".
std::string exposed_names(const Anatomy& anatomy) {
  std::vector<std::pair<Seconds, std::string>> parts;
  for (const auto& [name, time] : anatomy.exposed_by) parts.emplace_back(time, name);
  std::ranges::stable_sort(parts, std::ranges::greater{},
                           [](const auto& part) { return part.first; });
  std::string names = parts.front().second;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].first < parts.front().first * 0.2) break;
    names += " and " + parts[i].second;
  }
  return names;
}

/// The most that a network of twice the speed can save: all that is exposed, but no more than half
/// of what is in flight.
Seconds saved_by_twice_the_network(const Breakdown& parts) {
  return std::min(parts.exposed_communication,
                  (parts.exposed_communication + parts.hidden_communication) * 0.5);
}

std::string compute_bound(const Anatomy& anatomy) {
  const Breakdown& parts = anatomy.breakdown;
  const std::string head = "compute: " + share(parts.compute, anatomy) + " of the step; ";
  if (anatomy.exposed_by.empty()) return head + "nothing is communicated";
  if (parts.exposed_communication <= parts.compute * 1e-9)
    return head + "all communication is hidden behind it";
  return head + "a 2x faster network would save at most " +
         format(saved_by_twice_the_network(parts));
}

std::string network_bound(const Anatomy& anatomy, bool parameter_server) {
  return fmt::format(
      "network: {} of the step is exposed {}{}; a 2x faster one would save at most {}",
      share(anatomy.breakdown.exposed_communication, anatomy), exposed_names(anatomy),
      parameter_server ? " (the server's links)" : "",
      format(saved_by_twice_the_network(anatomy.breakdown)));
}

std::string waiting_for_peers(const Anatomy& anatomy) {
  const std::string text = fmt::format("waiting for the slowest rank: {} of the step",
                                       share(anatomy.waiting_for_peers, anatomy));
  if (anatomy.slowest_ratio < kUneven) return text + " (their compute times vary)";
  return text + fmt::format(" (rank {} computes {:.2f} times as long as the median)",
                            anatomy.slowest.index(), anatomy.slowest_ratio);
}

std::string host_bound(const Anatomy& anatomy) {
  return fmt::format("the host: {} of the step a GPU waits for kernels that are not launched yet",
                     share(anatomy.waiting_for_host, anatomy));
}

std::string waiting_bound(const Anatomy& anatomy, bool parameter_server) {
  const Seconds idle = anatomy.breakdown.idle;
  if (anatomy.waiting_for_server >= idle * 0.5) {
    return fmt::format("server: {} of the step a worker waits for the server's queue and update",
                       share(anatomy.waiting_for_server, anatomy));
  }
  if (parameter_server) {
    return fmt::format(
        "waiting: {} of the step a worker waits for the other workers and the server's update",
        share(idle, anatomy));
  }
  if (anatomy.waiting_for_peers >= idle * 0.5) return waiting_for_peers(anatomy);
  if (anatomy.waiting_for_host >= idle * 0.5) return host_bound(anatomy);
  return fmt::format("waiting: {} of the step neither computes nor communicates",
                     share(idle, anatomy));
}

}  // namespace

std::string bottleneck_sentence(const Anatomy& anatomy, bool parameter_server) {
  const Breakdown& parts = anatomy.breakdown;
  if (anatomy.loading >= anatomy.step * kLoadBound)
    return fmt::format("data loading: a step's batches are ready every {}, of which it computes {}",
                       format(anatomy.loading), share(parts.compute, anatomy));
  // A straggler, or a host that is behind, bounds the step long before others wait for most of it.
  const auto bounds = [&](Seconds waits) {
    return waits >= anatomy.step * 0.1 && waits > parts.exposed_communication;
  };
  if (anatomy.slowest_ratio >= kUneven && bounds(anatomy.waiting_for_peers))
    return waiting_for_peers(anatomy);
  if (bounds(anatomy.waiting_for_host) && anatomy.waiting_for_host > anatomy.waiting_for_peers)
    return host_bound(anatomy);
  if (parts.compute >= std::max(parts.exposed_communication, parts.idle))
    return compute_bound(anatomy);
  if (parts.exposed_communication >= parts.idle) return network_bound(anatomy, parameter_server);
  return waiting_bound(anatomy, parameter_server);
}

}  // namespace rehearse::inline report
