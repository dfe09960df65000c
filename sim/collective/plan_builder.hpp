#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "collective/plan.hpp"

namespace rehearse::inline collective {

/// Flows of a plan that stand side by side: the stripes of one edge, or one join.
struct FlowRange {
  std::uint32_t begin = 0, end = 0;
};

/// Work of hosts between the flows.
struct HostPart {
  int segments = 0;       ///< of a chunk that hosts hand over (plan_collective); 0: not played
  bool by_hosts = false;  ///< it was measured, so that edges cost their links' latency alone
};

/// Adds edges between members of a group to a plan, choosing ports and striping.
///
/// An edge between nodes is striped over the NICs that the group's ranks own on both sides, as
/// NCCL's channels are.
class PlanBuilder {
 public:
  PlanBuilder(const Group& group, const std::vector<RankSpec>& ranks, const Cluster& cluster,
              HostPart hosts);

  std::size_t segments() const { return segments_; }

  /// Members that are simulated, in ring order; the group's own counts are `ranks()` and `nodes()`.
  std::size_t members() const { return places_.size(); }
  double ranks() const { return static_cast<double>(group_.ranks); }
  double nodes() const { return static_cast<double>(group_.nodes); }
  bool folded() const { return group_.ranks != places_.size(); }
  /// Share of a node's members that is simulated.
  double kept_of_node() const;
  /// Members by node, in ring order.
  const std::vector<std::vector<std::size_t>>& by_node() const { return by_node_; }

  /// The path's, and between nodes what the NICs' transport takes for each message. From a member
  /// to itself: to another GPU of its node, which it stands for.
  Seconds edge_latency(std::size_t from, std::size_t to) const;
  bool leaves_node(std::size_t from, std::size_t to) const {
    return places_[from].node != places_[to].node;
  }
  /// An edge from one member to another, carrying `share` of the size after the flows of `after`
  /// have arrived. From a member to itself: it leaves through the member's port as it does to the
  /// next one, and comes in as it does from the one before.
  FlowRange edge(std::size_t from, std::size_t to, double share,
                 std::span<const FlowRange> after = {}, Seconds latency = {});
  /// The same through the two members' own NICs only.
  FlowRange unstriped_edge(std::size_t from, std::size_t to, double share,
                           std::span<const FlowRange> after = {}, Seconds latency = {});
  /// A member's host works on `share` of the size, after all of `after`.
  FlowRange host(std::size_t member, double share, std::span<const FlowRange> after);
  /// A member's host, which slept, notices what has arrived.
  FlowRange wake(std::size_t member, FlowRange arrived);
  /// One member's word to another that it is ready to receive from it. It takes no time of its own,
  /// so that of two members that come at the same moment one is the later one.
  FlowRange ready(std::size_t from, std::size_t to, std::span<const FlowRange> after);
  /// A point that a member reaches when it has come, and all of `after` has arrived.
  FlowRange join(std::size_t member, std::span<const FlowRange> after);
  /// Where flows get their places behind what their source has to send already.
  void place(FlowRange join, FlowRange flows);
  /// Lets flows wait for some that were added after them, too.
  void wait_too(FlowRange flows, FlowRange before);
  /// The plan, when all is added.
  FlowPlan finish();

  FlowPlan plan;

 private:
  Place neighbour(std::size_t member) const;
  FlowRange add(std::size_t member, const PortPair& ports, double share,
                std::span<const FlowRange> after, Seconds latency);

  const Group& group_;
  const Cluster& cluster_;
  bool rails_;
  std::size_t segments_;
  bool by_hosts_;
  std::vector<Place> places_;
  std::vector<std::vector<std::size_t>> by_node_;
  std::vector<std::size_t> node_of_;    // member -> index into by_node_
  std::vector<std::vector<int>> nics_;  // by node: NICs of its members, each once
  std::vector<std::pair<std::uint32_t, std::uint32_t>> later_;  // flow, one added after it
};

/// Algorithms, each in its own file; hop or flow fidelity.
void plan_ring(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity);
void plan_tree(PlanBuilder& builder, Fidelity fidelity);  ///< all_reduce
void plan_hierarchical(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity);
void plan_direct(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity);

/// A ring over some members as part of a plan (hop fidelity: `steps` steps, each moving `share /
/// steps` over every edge). Starts after `after`; returns what its end consists of. `striped` as
/// for PlanBuilder::edge.
struct RingPart {
  std::vector<std::size_t> members;
  double share = 0;
  std::size_t steps = 1;
  bool striped = true;
  /// Each member asks to send before it asks to receive (segments only).
  bool sends_first = false;
};
std::vector<FlowRange> add_ring(PlanBuilder& builder, const RingPart& ring,
                                std::span<const FlowRange> after, Fidelity fidelity);

/// Chunks that a pipelined chain or tree is cut into at hop fidelity.
inline constexpr std::size_t kPipelineChunks = 16;

}  // namespace rehearse::inline collective
