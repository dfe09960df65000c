// Rings, as NCCL's: every step moves one chunk over every edge at once (Thakur, Rabenseifner,
// Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005,
// sections 4.1-4.5).
#include <algorithm>
#include <limits>

#include "collective/plan_builder.hpp"

namespace rehearse::inline collective {

namespace {

/// Edges of a ring by where they lead: inside a node, or out of it.
struct Edges {
  std::size_t count = 0;
  Seconds sum, least{std::numeric_limits<double>::infinity()};

  void add(Seconds latency) {
    ++count;
    sum += latency;
    least = std::min(least, latency);
  }
  Seconds mean() const { return count > 0 ? sum / static_cast<double>(count) : Seconds(0); }
};

/// What a chunk waits for that goes once around: every edge of the ring but one. That one leaves a
/// node where the ring does, so that of N nodes' edges N - 1 are paid (NCCL's count, 2.19,
/// src/graph/tuning.cc). Where two nodes stand for all, theirs stand for the others' edges.
Seconds latency_around(const PlanBuilder& builder, const std::vector<std::size_t>& members) {
  Edges inside, between;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t from = members[i], to = members[(i + 1) % members.size()];
    (builder.leaves_node(from, to) ? between : inside).add(builder.edge_latency(from, to));
  }
  // Of a folded group in one node, a few members stand for all; a node's part of a group is whole.
  const bool stands_for_all = builder.folded() && members.size() == builder.members();
  if (between.count == 0)
    return stands_for_all ? (builder.ranks() - 1) * inside.mean() : inside.sum - inside.least;
  if (!builder.folded()) return inside.sum + between.sum - between.least;
  const double nodes = builder.nodes();
  const double others = inside.count == 0 ? 0 : builder.ranks() - nodes;
  return others * inside.mean() + (nodes - 1) * between.mean();
}

FlowRange add_hop(PlanBuilder& builder, const RingPart& ring, std::size_t edge, double share,
                  std::span<const FlowRange> after, Seconds latency) {
  const std::size_t from = ring.members[edge];
  const std::size_t to = ring.members[(edge + 1) % ring.members.size()];
  return ring.striped ? builder.edge(from, to, share, after, latency)
                      : builder.unstriped_edge(from, to, share, after, latency);
}

/// Of all steps: once around is a step less than the ring has ranks.
Seconds ring_latency(const PlanBuilder& builder, const RingPart& ring) {
  const bool whole = ring.members.size() == builder.members();
  const double across = builder.nodes();
  const double ranks = whole ? builder.ranks()
                       : builder.leaves_node(ring.members.front(), ring.members.back())
                           ? across
                           : static_cast<double>(ring.members.size());
  return latency_around(builder, ring.members) * (static_cast<double>(ring.steps) / (ranks - 1));
}

// Step t of edge i follows step t-1 of the edge before it (its data) and of its own (one at a
// time). A message's latency does not hold up the next one on its edge, so that no step waits for
// the slowest edge's: each pays the ring's mean, as chunks that start all around it do.
std::vector<FlowRange> add_ring_hops(PlanBuilder& builder, const RingPart& ring,
                                     std::span<const FlowRange> after) {
  const std::size_t edges = ring.members.size();
  const double share = ring.share / static_cast<double>(ring.steps);
  const Seconds latency = ring_latency(builder, ring) / static_cast<double>(ring.steps);
  std::vector<FlowRange> last(edges), now(edges);
  for (std::size_t step = 0; step < ring.steps; ++step) {
    for (std::size_t i = 0; i < edges; ++i) {
      const FlowRange before[] = {last[(i + edges - 1) % edges], last[i]};
      const auto wait = step == 0 ? after : std::span<const FlowRange>(before);
      now[i] = add_hop(builder, ring, i, share, wait, latency);
    }
    std::swap(last, now);
  }
  return last;
}

// A member asks to send and to receive a segment when it has handed over the last but one and has
// got the last but one from its neighbour (Gloo's allreduce.cc and allgather.cc: two on the way).
// It hands a segment to its link when the receiver has said that it is ready, which leaves that
// one's host behind what it has to send already; what a host sends leaves in the order in which
// receivers were found ready.
std::vector<FlowRange> add_ring_segments(PlanBuilder& builder, const RingPart& ring,
                                         std::span<const FlowRange> after) {
  const std::size_t edges = ring.members.size();
  const std::size_t sends = ring.steps * builder.segments();
  const double share = ring.share / static_cast<double>(sends);
  const auto before = [edges](std::size_t i) { return (i + edges - 1) % edges; };
  // By member: what it asked last, and handed over; what it has got.
  std::vector<FlowRange> asked(edges);
  std::vector<std::vector<FlowRange>> worked(edges), noticed(edges);
  for (std::size_t k = 0; k < sends; ++k) {
    for (std::size_t i = 0; i < edges; ++i) {
      std::vector<FlowRange> wait;
      if (k == 0) wait.assign(after.begin(), after.end());
      if (k > 0) wait.push_back(asked[i]);
      if (k > 1) wait.insert(wait.end(), {worked[i][k - 2], noticed[i][k - 2]});
      asked[i] = builder.join(ring.members[i], wait);
    }
    std::vector<FlowRange> placed(edges);
    const auto place = [&] {
      for (std::size_t i = 0; i < edges; ++i)
        placed[i] = builder.join(ring.members[i], std::span(&asked[i], 1));
    };
    if (ring.sends_first) place();
    std::vector<FlowRange> ready;
    for (std::size_t i = 0; i < edges; ++i)
      ready.push_back(
          builder.ready(ring.members[i], ring.members[before(i)], std::span(&asked[i], 1)));
    if (!ring.sends_first) place();
    for (std::size_t i = 0; i < edges; ++i) {
      builder.wait_too(placed[i], ready[(i + 1) % edges]);
      std::vector<FlowRange> wait = {asked[i]};
      if (k > 0) wait.push_back(worked[i].back());
      worked[i].push_back(builder.host(ring.members[i], share, wait));
      const FlowRange handed[] = {placed[i], worked[i].back()};
      const std::size_t to = (i + 1) % edges;
      const Seconds latency = builder.edge_latency(ring.members[i], ring.members[to]);
      const FlowRange carried = add_hop(builder, ring, i, share, handed, latency);
      builder.place(placed[i], carried);
      noticed[to].push_back(builder.wake(ring.members[to], carried));
    }
  }
  builder.plan.by_member = true;
  std::vector<FlowRange> ends;
  ends.reserve(edges);
  for (const std::vector<FlowRange>& segments : noticed) ends.push_back(segments.back());
  return ends;
}

// Over sockets: the receiver's word that it is ready leaves behind what its host has to send
// already. Then the sender hands the message over, and waits for no more (Gloo's unbound buffers).
void plan_handed_message(PlanBuilder& builder) {
  const FlowRange sender = builder.join(0, {}), receiver = builder.join(1, {});
  const FlowRange both[] = {sender, builder.ready(1, 0, std::span(&receiver, 1))};
  const FlowRange placed = builder.join(0, both);
  const FlowRange handed = builder.host(0, 1, std::span(&placed, 1));
  const FlowRange sent =
      builder.unstriped_edge(0, 1, 1, std::span(&handed, 1), builder.edge_latency(0, 1));
  builder.place(placed, sent);
  builder.wake(1, sent);
  builder.plan.by_member = true;
}

// A broadcast is a chain from the root, cut into chunks: chunk c leaves a rank when it has come and
// chunk c-1 has left.
void plan_broadcast_hops(PlanBuilder& builder) {
  const std::size_t edges = builder.members() - 1;
  std::vector<FlowRange> last(edges);
  for (std::size_t chunk = 0; chunk < kPipelineChunks; ++chunk) {
    for (std::size_t i = 0; i < edges; ++i) {
      std::vector<FlowRange> wait;
      if (i > 0) wait.push_back(last[i - 1]);  // already this chunk's
      if (chunk > 0) wait.push_back(last[i]);
      last[i] = builder.edge(i, i + 1, 1.0 / kPipelineChunks, wait, builder.edge_latency(i, i + 1));
    }
  }
}

void plan_broadcast(PlanBuilder& builder, const std::vector<std::size_t>& members,
                    Fidelity fidelity) {
  if (fidelity == Fidelity::hop && !builder.folded()) return plan_broadcast_hops(builder);
  // Folded, the edge back to the first node stands for the edges between the nodes left out.
  const std::size_t edges = builder.folded() ? members.size() : members.size() - 1;
  for (std::size_t i = 0; i < edges; ++i) builder.edge(i, (i + 1) % members.size(), 1);
  builder.plan.latency = latency_around(builder, members);
}

}  // namespace

std::vector<FlowRange> add_ring(PlanBuilder& builder, const RingPart& ring,
                                std::span<const FlowRange> after, Fidelity fidelity) {
  if (fidelity == Fidelity::hop && builder.segments() > 0)
    return add_ring_segments(builder, ring, after);
  if (fidelity == Fidelity::hop) return add_ring_hops(builder, ring, after);
  std::vector<FlowRange> flows;
  for (std::size_t i = 0; i < ring.members.size(); ++i) {
    const std::size_t from = ring.members[i], to = ring.members[(i + 1) % ring.members.size()];
    flows.push_back(ring.striped ? builder.edge(from, to, ring.share, after)
                                 : builder.unstriped_edge(from, to, ring.share, after));
  }
  builder.plan.latency += ring_latency(builder, ring);
  return flows;
}

void plan_ring(PlanBuilder& builder, CollectiveKind kind, Fidelity fidelity) {
  builder.plan.algorithm = CollectiveAlgorithm::ring;
  std::vector<std::size_t> members(builder.members());
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = i;
  if (kind == CollectiveKind::send_recv && fidelity == Fidelity::hop && builder.segments() > 0)
    return plan_handed_message(builder);
  if (kind == CollectiveKind::send_recv) {
    const Seconds latency = builder.edge_latency(0, 1);
    builder.unstriped_edge(0, 1, 1, {}, fidelity == Fidelity::hop ? latency : Seconds{});
    if (fidelity == Fidelity::flow) builder.plan.latency = latency;
    return;
  }
  // A reduce is a broadcast backwards, and takes as long.
  if (kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce)
    return plan_broadcast(builder, members, fidelity);
  const auto steps = static_cast<std::size_t>(builder.ranks()) - 1;
  const bool reduce_and_gather = kind == CollectiveKind::all_reduce;
  add_ring(builder,
           {.members = members,
            .share = bus_factor(kind, builder.ranks()),
            .steps = reduce_and_gather ? 2 * steps : steps,
            .sends_first = kind == CollectiveKind::all_gather},
           {}, builder.folded() ? Fidelity::flow : fidelity);
}

}  // namespace rehearse::inline collective
