#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective/plan.hpp"
#include "profile/comm_profile.hpp"

namespace rehearse {

/// Half-width of the 90 % interval of ln(time) of communication that the links' rates alone cost.
/// At 64 MiB seven of the eight shipped curves take between 0.8 and 1.74 times (ln -0.19 to 0.55)
/// as long as a ring at the rates of their clusters in platforms/; the eighth, four A100s on PCIe
/// across two sockets, takes 4.5 times as long.
inline constexpr double kLinksError = 0.55;
/// Likewise where copies between GPUs are staged through the host at a rate that nobody gave:
/// seven public nodes without peer-to-peer lie within 3 times kStagedRate's prediction.
inline constexpr double kStagedError = 1.1;
/// Likewise of a tree over two nodes: NCCL sends the bytes once since some version after 2.12, and
/// 1.9 times before, where it takes a ring; which one runs is not said.
inline constexpr double kTwoNodeTreeError = 0.65;
/// Likewise of a curve that was carried to other links, ranks or nodes, below kLargeMessage and
/// from there on, at least.
inline constexpr double kRescaledSmall = 0.5, kRescaledLarge = 0.3;
/// Likewise of all_gather, reduce_scatter and broadcast taken from all_reduce.
inline constexpr double kDerivedError = 0.25;

/// What answers for a collective.
enum class CostBasis { curve, rescaled, links };

/// What links alone say of a collective that has them for itself.
struct LinkCost {
  Seconds latency;
  double seconds_per_byte = 0;

  Seconds of(Bytes size) const { return latency + Seconds(size.value() * seconds_per_byte); }
};

/// What a collective costs on a cluster, for itself.
struct CollectiveCost {
  Seconds latency{};
  Seconds transfer{};
  CostBasis basis = CostBasis::links;
  /// Of its time over what the curve says of its own links, ranks and collective.
  double ratio = 1;
  /// Why no measurement speaks for it as it is, but for its links ("16 ranks from a curve of 8").
  std::string outside{};
  double uncertainty = 0;  ///< half-width of the 90 % interval of ln(time)
};

/// One collective and what answered for it.
struct CollectiveAnswer {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  GroupId group;
  int ranks = 1, nodes = 1;
  CollectiveCost cost;
};

/// Costs of collectives on one cluster: by a measured curve where there is one, carried over to
/// this cluster's links, ranks and collective by what links alone say of both; else by the links.
///
/// A curve of several nodes speaks for several nodes, one of a node for one. Where only a node was
/// measured, what its smallest collective takes beyond its links is paid between nodes too, so that
/// no collective gets faster by leaving a node. Sources: README of platforms/, "How collectives are
/// played".
class CollectiveCosts {
 public:
  /// `profile` may be null, and must outlive this.
  explicit CollectiveCosts(const CommProfile* profile) : profile_(profile) {}

  /// Of `size`, over `group` on `cluster`. `links`: its plan's closed form.
  CollectiveCost cost(CollectiveKind kind, Bytes size, const Group& group, const FlowPlan& plan,
                      const LinkCost& links, const Cluster& cluster);

 private:
  /// The links that a curve was measured on, for its own collective.
  LinkCost measured_links(const CommCurve& curve, Bytes size);
  CollectiveCost carried(const CommCurve& curve, CollectiveKind kind, Bytes size,
                         const Group& group, const LinkCost& links);
  void add_what_a_node_takes(CollectiveKind kind, const Group& group, CollectiveCost& cost);

  const CommProfile* profile_;
  std::map<const CommCurve*, std::vector<LinkCost>> measured_links_;
};

}  // namespace rehearse
