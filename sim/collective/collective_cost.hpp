#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/nccl_model.hpp"
#include "collective/plan.hpp"
#include "profile/comm_profile.hpp"

namespace rehearse::inline collective {

/// Half-width of the 90 % interval of ln(time) of communication that the links' rates alone cost.
/// At 64 MiB seven of the eight shipped curves take between 0.8 and 1.74 times (ln -0.19 to 0.55)
/// as long as a ring at the rates of their clusters in platforms/; the eighth, four A100s on PCIe
/// across two sockets, takes 4.5 times as long.
inline constexpr double kLinksError = 0.55;
/// The same half-width where copies between GPUs are staged through the host at a rate that nobody
/// gave: seven public nodes without peer-to-peer lie within 3 times kStagedRate's prediction.
inline constexpr double kStagedError = 1.1;
/// The same half-width for a curve that was carried to other links, ranks or nodes, below
/// kLargeMessage and from there on, at least.
inline constexpr double kRescaledSmall = 0.5, kRescaledLarge = 0.3;
/// The same half-width for a collective taken from another's curve on the same ranks of one node.
inline constexpr double kDerivedError = 0.25;

/// The same half-width for a curve that was measured on another machine of its kind, below 4 MiB,
/// below 256 MiB and from there on. All_reduces of four machines of eight A100s have standard
/// deviations of 0.25 to 0.39, 0.07 to 0.16 and 0.005 to 0.017 of the logarithm (nccl-tests: Azure,
/// aiconfigurator, SuperBench, vTrain). Two of H100s lie 1.6 to 2.3, 1.0 to 1.1 and 1.0 times
/// apart.
inline constexpr double kMachinesSmall = 0.5, kMachinesMiddle = 0.23, kMachinesLarge = 0.04;
/// A curve that is that many times off NCCL's model between nodes is of another NCCL or another
/// fabric.
inline constexpr double kAnotherFabric = 1.5;

/// Source that answers for a collective's cost: a curve as it is, a curve carried over by NCCL's
/// model, NCCL's or Gloo's model, or the links' closed form.
enum class CostBasis { curve, rescaled, model, gloo, links };
/// "measured", "curve rescaled", "NCCL model", "Gloo model", "links".
std::string to_string(CostBasis basis);

/// Cost, by the links alone, of a collective that has them for itself.
struct LinkCost {
  Seconds latency;
  double seconds_per_byte = 0;
};

/// Cost of a collective on a cluster that it has for itself.
struct CollectiveCost {
  Seconds latency{};
  Seconds transfer{};  ///< its bytes on ports, or on a fabric's cables where these take longer
  /// Bytes of its flows over those of the plan, inside nodes and between them. A protocol's further
  /// bytes on a link travel over that link alone, and take part in contention there.
  double inside_scale = 1, between_scale = 1;
  CostBasis basis = CostBasis::links;
  /// Ratio of its time to what the curve says of its own links, ranks and collective.
  double ratio = 1;
  /// Why no measurement speaks for it as it is, but for its links ("16 ranks from a curve of 8").
  std::string outside{};
  double uncertainty = 0;  ///< half-width of the 90 % interval of ln(time)
  /// How NCCL does it, by its model; nothing where links alone answer.
  std::optional<NcclEstimate> estimate{};
  int channels = 0;             ///< nccl_channels; 0: not known
  double compute_slowdown = 1;  ///< nccl_compute_slowdown

  Seconds total() const { return latency + transfer; }
};

/// One collective and what answered for it.
struct CollectiveAnswer {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  GroupId group;
  int ranks = 1, nodes = 1;
  CollectiveAlgorithm played = CollectiveAlgorithm::ring;
  CollectiveCost cost;

  /// The algorithm as NCCL spells it where its model was asked, else what is played: "Tree",
  /// "hierarchical".
  std::string algorithm() const;
  /// "LL128"; empty where NCCL's model was not asked.
  std::string protocol() const;
  /// As nccl-tests counts it, of the collective for itself; 0 where it takes no time.
  BytesPerSecond busbw() const;
};

/// The curves that a cluster names; null where it names none. Those that do not say their links are
/// taken for the cluster's (CommProfile::links_assumed). InputError, MissingError of the file.
std::shared_ptr<const CommProfile> load_comm_profile(const Cluster& cluster);

/// Whether curves are Gloo's, as rehearse-calibrate writes their source: between GPUs they say
/// nothing of NCCL.
bool is_gloos(const CommProfile& profile);

/// How a collective of NCCL is played: which plan has its traffic.
CollectiveAlgorithm plan_of(NcclAlgorithm algorithm, CollectiveKind kind);

/// Costs of collectives on one cluster: by a measured curve where its collective, ranks, nodes and
/// links are these; elsewhere NCCL's model times what the nearest measurement is over the model at
/// its own place; without any, NCCL's model, or the links' closed form where the cluster asks for
/// it.
///
/// A curve of several nodes speaks for several nodes, one of a node for one. Beyond the sizes that
/// it has, the ratio at its end holds. all_gather, reduce_scatter, broadcast and reduce without a
/// curve take the ratio of all_reduce where its busiest port moves as much. Where only a node was
/// measured, what its smallest collective takes beyond the model is paid between nodes too.
class CollectiveCosts {
 public:
  /// `profile` may be null. It, the cluster and the ranks must outlive this. `slowed`:
  /// nccl_machine.
  CollectiveCosts(const CommProfile* profile, const Cluster& cluster,
                  const std::vector<RankSpec>& ranks, double slowed = 1)
      : profile_(profile), cluster_(cluster), ranks_(ranks), slowed_(slowed) {}

  /// The cost of a collective of `size` over `group`. `links`: the closed form of its plan.
  CollectiveCost cost(CollectiveKind kind, Bytes size, const Group& group, const FlowPlan& plan,
                      const LinkCost& links);
  /// The plans that may play it, the first of them by NCCL's choice on a fabric that blocks nobody;
  /// none where links alone decide.
  std::vector<CollectiveAlgorithm> choices(CollectiveKind kind, Bytes size, const Group& group);
  /// How many times as long compute takes beside a kernel with so many multiprocessors for itself
  /// (nccl_compute_slowdown).
  double slowdown_beside(const Group& group, int multiprocessors) {
    return nccl_compute_slowdown(machine_of(group), multiprocessors);
  }

 private:
  const NcclMachine& machine_of(const Group& group);
  /// Where a curve was measured.
  NcclMachine machine_of(const CommCurve& curve, const NcclMachine& here) const;
  bool modelled(const FlowPlan& plan, CollectiveKind kind) const;
  NcclEstimate estimate(CollectiveKind kind, Bytes size, const Group& group, const FlowPlan& plan);
  /// Shares out what its bytes take on ports; `estimate` says on which.
  void place(CollectiveCost& cost, Bytes size, const FlowPlan& plan) const;
  CollectiveCost carried(const CommCurve& curve, CollectiveKind kind, Bytes size,
                         const Group& group, const FlowPlan& plan, const LinkCost& links);
  const CommCurve* curve_for(CollectiveKind kind, const Group& group) const;
  CollectiveCost by_model(CollectiveKind kind, Bytes size, const Group& group,
                          const FlowPlan& plan);
  CollectiveCost without_channels(CollectiveKind kind, Bytes size, const Group& group,
                                  const FlowPlan& plan, const LinkCost& links);
  bool goes_by_gloo() const;
  CollectiveCost by_gloo(CollectiveKind kind, Bytes size, const Group& group) const;
  CollectiveCost by_links(Bytes size, const Group& group, const FlowPlan& plan,
                          const LinkCost& links) const;

  Seconds beyond_the_model(CollectiveKind kind, const Group& group);

  const CommProfile* profile_;
  const Cluster& cluster_;
  const std::vector<RankSpec>& ranks_;
  double slowed_;
  std::map<const Group*, NcclMachine> machines_;
};

}  // namespace rehearse::inline collective
