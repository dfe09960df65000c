// Everyone to everyone at once: what a non-blocking crossbar can do in one step.
#include "collective/plan_builder.hpp"

namespace rehearse {

namespace {

// Hosts hand their messages over one after the other; the links carry them at once.
std::vector<FlowRange> add_handed_exchange(PlanBuilder& builder, std::span<const FlowRange> after) {
  const std::size_t members = builder.members();
  const double share = 1 / builder.ranks();
  std::vector<FlowRange> worked(members), ends;
  for (std::size_t shift = 1; shift < members; ++shift) {
    for (std::size_t from = 0; from < members; ++from) {
      const std::size_t to = (from + shift) % members;
      const FlowRange before[] = {worked[from]};
      worked[from] = builder.host(share, shift == 1 ? after : std::span<const FlowRange>(before));
      const FlowRange handed[] = {worked[from]};
      ends.push_back(builder.wake(
          builder.unstriped_edge(from, to, share, handed, builder.edge_latency(from, to))));
    }
  }
  return ends;
}

std::vector<FlowRange> add_exchange(PlanBuilder& builder, std::span<const FlowRange> after,
                                    Fidelity fidelity) {
  if (builder.segments() > 0) return add_handed_exchange(builder, after);
  const std::size_t members = builder.members();
  std::vector<FlowRange> ends;
  Seconds longest;
  for (std::size_t shift = 1; shift < members; ++shift) {
    for (std::size_t from = 0; from < members; ++from) {
      const std::size_t to = (from + shift) % members;
      const Seconds latency = builder.edge_latency(from, to);
      longest = std::max(longest, latency);
      ends.push_back(builder.unstriped_edge(from, to, 1 / builder.ranks(), after,
                                            fidelity == Fidelity::hop ? latency : Seconds{}));
    }
  }
  if (fidelity == Fidelity::flow) builder.plan.latency += longest;
  return ends;
}

}  // namespace

void plan_direct(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity) {
  builder.plan.algorithm = CollectiveAlgorithm::direct;
  if (kind == CollectiveKind::broadcast) {
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
  const FlowRange joined[] = {builder.join(scattered)};
  add_exchange(builder, joined, fidelity);
}

}  // namespace rehearse
