// Everyone to everyone at once: what a non-blocking crossbar can do in one step.
#include <algorithm>
#include <cmath>

#include "collective/plan_builder.hpp"

namespace rehearse::inline collective {

namespace {

// In its i-th step a member asks to send to the one i places on, then says to the one i places back
// that it is ready to receive (Gloo's alltoall.cc); a message is handed over when its receiver is
// ready. That word leaves behind what its host has to send already: of two members that exchange
// messages the later one, which finds the other ready, sends first, and the other one replies,
// unless the later one receives in an earlier step than it sends.
std::vector<FlowRange> add_handed_exchange(PlanBuilder& builder, std::span<const FlowRange> after) {
  const std::size_t members = builder.members();
  const double share = 1 / builder.ranks();
  std::vector<FlowRange> come, ends;
  std::vector<std::vector<FlowRange>> noticed(members);
  for (std::size_t member = 0; member < members; ++member)
    come.push_back(builder.join(member, after));
  std::vector<FlowRange> worked = come;
  for (std::size_t shift = 1; shift < members; ++shift) {
    std::vector<FlowRange> placed;
    for (std::size_t from = 0; from < members; ++from)
      placed.push_back(builder.join(from, std::span(&come[from], 1)));
    for (std::size_t from = 0; from < members; ++from) {
      const std::size_t to = (from + shift) % members;
      builder.wait_too(placed[from], builder.ready(to, from, std::span(&come[to], 1)));
      worked[from] = builder.host(from, share, std::span(&worked[from], 1));
      const FlowRange handed[] = {placed[from], worked[from]};
      const FlowRange sent =
          builder.unstriped_edge(from, to, share, handed, builder.edge_latency(from, to));
      builder.place(placed[from], sent);
      noticed[to].push_back(builder.wake(to, sent));
    }
  }
  // Whoever has all parts adds them up.
  for (std::size_t member = 0; member < members; ++member)
    ends.push_back(builder.host(member, 1, noticed[member]));
  builder.plan.by_member = true;
  return ends;
}

/// Flows from one member to another one, at the most; more of them go as one.
constexpr double kMostFlows = 4;

/// What one member sends to another one: so many flows of that share.
struct Sends {
  Sends(double stands_for, double one)
      : flows(stands_for > 1 && stands_for <= kMostFlows ? std::round(stands_for) : 1),
        share(one * stands_for / flows) {}
  double flows, share;
};

/// On its node, and on others.
struct Shares {
  Sends inside, between;
};

/// Of a folded group a member stands for several: what is sent to these goes to it. By as many
/// flows while they are few, so that what shares their ports gets what it would get.
Shares shares_of(const PlanBuilder& builder) {
  const double one = 1 / builder.ranks();
  if (!builder.folded()) return {{1, one}, {1, one}};
  const double kept = static_cast<double>(builder.by_node().front().size());
  const double kept_others = static_cast<double>(builder.members()) - kept;
  const double node = builder.ranks() / builder.nodes();
  return {.inside = {kept > 1 ? (node - 1) / (kept - 1) : 0, one},
          .between = {kept_others > 0 ? (builder.ranks() - node) / kept_others : 0, one}};
}

std::vector<FlowRange> add_exchange(PlanBuilder& builder, std::span<const FlowRange> after,
                                    Fidelity fidelity) {
  if (builder.segments() > 0) return add_handed_exchange(builder, after);
  const std::size_t members = builder.members();
  const Shares shares = shares_of(builder);
  std::vector<FlowRange> ends;
  Seconds longest;
  for (std::size_t shift = 1; shift < members; ++shift) {
    for (std::size_t from = 0; from < members; ++from) {
      const std::size_t to = (from + shift) % members;
      const Seconds latency = builder.edge_latency(from, to);
      longest = std::max(longest, latency);
      const Sends& sends = builder.leaves_node(from, to) ? shares.between : shares.inside;
      for (int i = 0; i < static_cast<int>(sends.flows); ++i)
        ends.push_back(builder.unstriped_edge(from, to, sends.share, after,
                                              fidelity == Fidelity::hop ? latency : Seconds{}));
    }
  }
  if (fidelity == Fidelity::flow) builder.plan.latency += longest;
  return ends;
}

}  // namespace

void plan_direct(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity) {
  builder.plan.algorithm = CollectiveAlgorithm::direct;
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce) {
    for (std::size_t to = 1; to < builder.members(); ++to) {
      const Seconds latency = builder.edge_latency(0, to);
      builder.unstriped_edge(0, to, 1, {}, fidelity == Fidelity::hop ? latency : Seconds{});
      if (fidelity == Fidelity::flow)
        builder.plan.latency = std::max(builder.plan.latency, latency);
    }
    return;
  }
  const auto scattered = add_exchange(builder, {}, fidelity);
  if (kind != CollectiveKind::all_reduce) return;
  const FlowRange joined[] = {builder.join(0, scattered)};
  add_exchange(builder, joined, fidelity);
}

}  // namespace rehearse::inline collective
