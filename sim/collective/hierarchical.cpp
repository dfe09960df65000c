// Two levels: rings inside the nodes and, for each local rank, a ring across the nodes over its own
// NIC.
#include "base/error.hpp"
#include "collective/plan_builder.hpp"

namespace rehearse::inline collective {

namespace {

struct Level {
  double share;
  std::size_t steps;
};

using Flows = std::vector<FlowRange>;

// Everything of a level ends before the next one starts: one join.
Flows barrier(PlanBuilder& builder, const Flows& flows) { return {builder.join(0, flows)}; }

void append(Flows& to, const Flows& more) { to.insert(to.end(), more.begin(), more.end()); }

Flows add_inside(PlanBuilder& builder, Level level, const Flows& after, Fidelity fidelity) {
  if (builder.by_node().front().size() < 2) return after;
  Flows ends;
  const Seconds before = builder.plan.latency;
  Seconds longest;
  for (const auto& members : builder.by_node()) {
    builder.plan.latency = {};
    append(ends, add_ring(builder, {.members = members, .share = level.share, .steps = level.steps},
                          after, fidelity));
    longest = std::max(longest, builder.plan.latency);
  }
  builder.plan.latency = before + longest;
  return barrier(builder, ends);
}

Flows add_across(PlanBuilder& builder, Level level, const Flows& after, Fidelity fidelity) {
  Flows ends;
  const Seconds before = builder.plan.latency;
  for (std::size_t local = 0; local < builder.by_node().front().size(); ++local) {
    RingPart ring{.members = {}, .share = level.share, .steps = level.steps, .striped = false};
    for (const auto& members : builder.by_node()) ring.members.push_back(members[local]);
    builder.plan.latency = before;
    append(ends, add_ring(builder, ring, after, fidelity));
  }
  return barrier(builder, ends);
}

}  // namespace

void plan_hierarchical(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity) {
  builder.plan.algorithm = CollectiveAlgorithm::hierarchical;
  if (builder.folded()) fidelity = Fidelity::flow;
  const auto local = builder.by_node().front().size();
  const auto nodes = static_cast<std::size_t>(builder.nodes());
  const double g = static_cast<double>(local), n = builder.nodes();
  const Level inside{(g - 1) / g, local - 1};
  const double phases = kind == CollectiveKind::all_reduce ? 2 : 1;
  const Level across{phases * (n - 1) / n / g, static_cast<std::size_t>(phases) * (nodes - 1)};

  Flows at;
  if (kind != CollectiveKind::all_gather) at = add_inside(builder, inside, at, fidelity);
  at = add_across(builder, across, at, fidelity);
  if (kind != CollectiveKind::reduce_scatter) add_inside(builder, inside, at, fidelity);
}

}  // namespace rehearse::inline collective
