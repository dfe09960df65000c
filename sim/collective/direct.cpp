// Everyone to everyone at once: what a non-blocking crossbar can do in one step.
#include <map>

#include "collective/plan_builder.hpp"

namespace rehearse {

namespace {

// Whether a member begins to send to another only when that one's message has come. Members are
// taken to come one after the other, as ranks do that have computed. A rank may send when it knows
// that the other one is ready to receive, and that word travels behind what the other has begun to
// send over the same connection. In its i-th step a rank asks to send i places on, then to receive
// from i places back (Gloo's alltoall.cc): the later of two ranks sends at once, and has said
// before that it is ready only where it receives in an earlier step than it sends.
bool is_reply(std::size_t from, std::size_t to, std::size_t members) {
  return from < to && 2 * (to - from) >= members;
}

// Hosts hand their messages over one after the other; the links carry them at once, but for the
// replies.
std::vector<FlowRange> add_handed_exchange(PlanBuilder& builder, std::span<const FlowRange> after) {
  const std::size_t members = builder.members();
  const double share = 1 / builder.ranks();
  std::vector<FlowRange> worked(members), ends;
  std::map<std::pair<std::size_t, std::size_t>, FlowRange> handed;
  for (std::size_t shift = 1; shift < members; ++shift) {
    for (std::size_t from = 0; from < members; ++from) {
      const FlowRange before[] = {worked[from]};
      worked[from] = builder.host(share, shift == 1 ? after : std::span<const FlowRange>(before));
      handed[{from, (from + shift) % members}] = worked[from];
    }
  }
  std::vector<std::vector<FlowRange>> noticed(members);
  // From the last member on, so that what a reply waits for stands before it.
  for (auto message = handed.rbegin(); message != handed.rend(); ++message) {
    const auto [from, to] = message->first;
    const FlowRange wait[] = {message->second, is_reply(from, to, members)
                                                   ? handed.at({to, from})
                                                   : builder.ready(to, from)};
    message->second = builder.unstriped_edge(from, to, share, wait, builder.edge_latency(from, to));
    noticed[to].push_back(builder.wake(message->second));
  }
  // Whoever has all parts adds them up.
  for (const std::vector<FlowRange>& parts : noticed) ends.push_back(builder.host(1, parts));
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
