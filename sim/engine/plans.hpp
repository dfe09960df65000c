#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/bundle.hpp"
#include "engine/engine.hpp"

namespace rehearse::inline engine {

/// A plan with what the engine needs to play it: who waits for whom, and how often it has to be
/// waited for.
struct PlayablePlan {
  FlowPlan plan;
  std::vector<std::uint32_t> waits_for;         ///< by flow: flows that must have arrived
  std::vector<std::uint32_t> next_begin, next;  ///< by flow: flows that wait for it
  /// Ends of each flow, by flow: indices into Plans::ports().
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ports;
  std::vector<std::uint32_t> stands_for;  ///< by flow: how many flows of the collective it plays
  /// By member, for a plan by member: flows that begin when it comes, and steps of its host.
  std::vector<std::vector<std::uint32_t>> begins;
  std::vector<std::uint32_t> host_steps;
  std::optional<Bundle> bundle{};  ///< of flows that one timer may stand for
  bool played = false;             ///< false: only its closed form is used
};

/// One collective of one group as it will be played: its plan and its calibrated cost.
struct PlannedCollective {
  const PlayablePlan* plan = nullptr;
  Bytes size;                   ///< times a flow's share: its bytes, protocol overhead included
  Seconds latency;              ///< before the first flow
  double latency_scale = 1;     ///< on the flows' own latencies (hop fidelity)
  double compute_slowdown = 1;  ///< how many times longer its ranks' compute takes meanwhile
  double comm_slowdown = 1;     ///< and it itself while one of them computes; at least 1
  /// Transport whose hosts work between its flows; null where none takes part.
  const Transport* transport = nullptr;
};

/// Plans every collective of a schedule once.
class Plans {
 public:
  /// Plans the schedule on the cluster, with the machine's fidelity and costs; all must stay. What
  /// collectives cost depends on the cluster `as_built`, whose NICs are not bonded. Where `answers`
  /// is not null, what answered for each collective is noted there.
  Plans(const Schedule& schedule, const Cluster& cluster, const Cluster& as_built,
        const Machine& machine, std::vector<CollectiveAnswer>* answers = nullptr);

  /// The same collective of the same group is planned once, and noted each time.
  PlannedCollective planned(const Collective& collective, GroupId group);
  /// Merges like flows (merge_like_flows). To be called when all collectives are planned, where
  /// their flows have the network for themselves.
  void merge_flows();
  /// Finds which flows one timer may stand for. To be called when ports have their numbers.
  void bundle_flows();
  /// Ports, of those used so far, that send to themselves and to nobody else.
  std::vector<Port> loops() const;
  /// Number of a port, a new one where it was not yet used.
  std::uint32_t number_of(const Port& port);
  /// Ports used so far, by number.
  const std::vector<Port>& ports() const { return ports_; }

 private:
  struct Key {
    CollectiveKind kind;
    CollectiveAlgorithm algorithm;
    std::size_t group;
    Fidelity fidelity;
    int segments = 0;
    double inside = 1;  ///< so many times the plan's bytes cross links inside nodes
    auto operator<=>(const Key&) const = default;
  };

  /// A collective of a group, and what was noted of it.
  using Asked =
      std::tuple<GroupId, CollectiveKind, CollectiveAlgorithm, double, std::optional<int>>;
  struct Known {
    PlannedCollective planned;
    std::optional<CollectiveAnswer> answer;
  };

  PlayablePlan& plan(const Key& key);
  const PlayablePlan& played_plan(const Key& key);
  void number_ports(PlayablePlan& plan);
  /// `by_channels`: how many times as long compute takes beside NCCL's channels.
  void add_overlap(const Collective& collective, double by_channels,
                   PlannedCollective& planned) const;
  /// Beside a kernel that takes multiprocessors, whatever the schedule says of others.
  void add_kernel(const Collective& collective, GroupId group, double by_channels,
                  PlannedCollective& planned);
  PlannedCollective planned_by_transport(const Collective& collective, GroupId group);
  CollectiveCost cost_of(const Collective& collective, GroupId group, const FlowPlan& flow);
  CollectiveAlgorithm choose(const Collective& collective, GroupId group);
  PlannedCollective plan_anew(const Collective& collective, GroupId group);
  void note(const Collective& collective, GroupId group, const FlowPlan& plan,
            const CollectiveCost& cost) const;

  const Schedule& schedule_;
  const Cluster& cluster_;
  const Machine& machine_;
  std::vector<CollectiveAnswer>* answers_;
  CollectiveCosts costs_;
  std::map<Key, PlayablePlan> plans_;
  std::map<Asked, Known> known_;
  std::map<Port, std::uint32_t> numbers_;
  std::vector<Port> ports_;
};

}  // namespace rehearse::inline engine
