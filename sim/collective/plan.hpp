#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline collective {

/// hop: every step of the algorithm is a flow. flow: one flow per edge carries all its bytes, and
/// the steps' latencies are paid once.
enum class Fidelity { hop, flow };

/// A collective lowered to flows between ports; sizes are shares of the collective's size, so one
/// plan serves every size.
struct FlowPlan {
  struct Flow {
    Port source, target;
    double share = 0;  ///< of the collective's size; 0: no bytes, only joins what it comes after
    Seconds latency;   ///< before its bytes move (hop fidelity)
    std::uint32_t after_begin = 0;  ///< into `after`: flows that must have arrived
    std::uint32_t after_end = 0;
  };
  /// Work of hosts over sockets (segmented hops), beside a flow or as a flow that has no bytes.
  struct HostStep {
    std::uint32_t member = 0;  ///< of the group: who sends, says or does it
    double handled = 0;        ///< work on this share of the collective's size
    bool wakes = false;
    /// Says that its source is ready to receive from its target: no bytes, but it leaves behind
    /// what its source has to send already.
    bool readies = false;
    /// Flows that get their places in the order of what their source sends when this is reached;
    /// each leaves when it has begun, too.
    std::uint32_t places_begin = 0, places_end = 0;

    bool of_host() const { return handled > 0 || wakes; }
  };
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;  ///< never automatic
  std::vector<Flow> flows;
  std::vector<std::uint32_t> after;
  std::vector<HostStep> steps;  ///< by flow; empty: hosts do nothing
  /// Each member begins when it comes itself, and is through when what its own host does is over
  /// (segmented hops). Otherwise all wait for the last one to come, and end together.
  bool by_member = false;
  /// Paid once before the flows (flow fidelity): the steps' latencies.
  Seconds latency;
  /// Time per byte of size on the most loaded port when nothing else runs (flow fidelity).
  double seconds_per_byte = 0;
  /// The same of ports inside nodes, of NICs, and of the cables of a fabric (flow fidelity). Where
  /// phases follow each other the first two are seconds_per_byte, and the last one is the sum of
  /// what each phase takes on its busiest port or cable.
  struct Loads {
    double inside = 0, between = 0, cables = 0;
  };
  Loads loads;

  /// Whether no flow waits for another one, for a latency or for a host.
  bool begins_at_once() const;
  const HostStep& step(std::size_t flow) const {
    static const HostStep none;
    return steps.empty() ? none : steps[flow];
  }
  /// latency + size * seconds_per_byte: the closed form of the uncontended collective at flow
  /// fidelity.
  Seconds uncontended(Bytes size) const {
    return latency + Seconds(size.value() * std::max(seconds_per_byte, loads.cables));
  }
};

/// Lowers a collective over a group. Formulas, with n ranks, S bytes, L the largest latency of an
/// edge, b the rate of the most loaded port (README.md here; Thakur et al. 2005; Sanders et
/// al. 2009 for the double tree):
///   ring all_reduce 2(n-1) L + 2(n-1)/n S/b; all_gather, reduce_scatter (n-1) L + (n-1)/n S/b;
///   broadcast (n-1) L + S/b (pipelined); send_recv L + S/b;
///   tree: double binary over the nodes, a chain inside each (all_reduce): 2 D L + k/2 S/b, D its
///   depth and k the most tree edges at one node; hierarchical: rings inside the nodes, then rings
///   of like local ranks across; direct: everyone to everyone at once. A group of one rank has no
///   flows and no latency.
/// With `segments` above 0 every chunk of a ring goes in so many segments at hop fidelity, two of
/// them on the way (Transport): the host hands them to the link one after the other, and the link
/// carries one while the host works on the next. Direct exchanges are handed over message by
/// message, and their owners add up the parts. Kinds that an algorithm does not know
/// (reduce_scatter by tree, ...) and groups it does not suit fall back to the ring;
/// FlowPlan::algorithm says what it became. `algorithm` must not be automatic.
FlowPlan plan_collective(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group,
                         const std::vector<RankSpec>& ranks, const Cluster& cluster,
                         Fidelity fidelity, int segments = 0);

/// Algorithms that `automatic` may choose from for a kind where links alone say the cost: ring, and
/// tree for an all_reduce between nodes.
std::vector<CollectiveAlgorithm> automatic_candidates(CollectiveKind kind, const Group& group);

/// Largest seconds per byte over all ports that the flows load, each flow counting its share;
/// inside nodes and between them, and over cables.
FlowPlan::Loads loads_of(const std::vector<FlowPlan::Flow>& flows, const Cluster& cluster);

}  // namespace rehearse::inline collective
