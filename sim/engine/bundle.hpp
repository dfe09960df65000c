#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cluster/cluster.hpp"
#include "collective/plan.hpp"

namespace rehearse::inline engine {

/// A collective's flows, where they begin together and each waits for nothing else: when all of
/// them end is known as long as nothing else uses their ports, and one timer stands for them.
struct Bundle {
  struct Stage {
    double end = 0;              ///< since the begin, by the collective's size (s/byte)
    std::vector<double> left{};  ///< by flow: the share of the size that it then still has to move
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> flows;  ///< ports that each goes between
  std::vector<double> shares;                                  ///< by flow, of the size
  std::vector<std::uint32_t> outs, ins;  ///< ports that flows leave, and that they come to
  std::vector<Stage> stages;             ///< between two of them rates do not change

  /// From the first flow's begin to the last one's end, by the collective's size.
  double end() const { return stages.back().end; }
  /// Share of the size that a flow has yet to move.
  double left(std::size_t flow, double since) const;
};

/// Ports of flows are numbers into `ports`. Nothing for flows that wait for each other, that have
/// latencies, or that share more than their ports.
std::optional<Bundle> bundle_of(const FlowPlan& plan,
                                std::span<const std::pair<std::uint32_t, std::uint32_t>> flows,
                                const std::vector<Port>& ports, const Cluster& cluster);

/// Which ports are in use, and by whom: a bundle holds its own until something else comes to one.
class PortUses {
 public:
  using Holder = std::uint32_t;

  explicit PortUses(std::size_t ports) : out_(ports), in_(ports) {}

  bool is_idle(const Bundle& bundle) const;
  void hold(const Bundle& bundle, Holder holder);
  void release(const Bundle& bundle);
  /// Who must make room for a flow between two ports.
  std::optional<Holder> in_the_way(std::uint32_t source, std::uint32_t target) const;
  void begin(std::uint32_t source, std::uint32_t target);
  void end(std::uint32_t source, std::uint32_t target);

 private:
  struct Use {
    std::uint32_t flows = 0;
    std::optional<Holder> holder{};
  };
  std::vector<Use> out_, in_;  ///< by port
};

}  // namespace rehearse::inline engine
