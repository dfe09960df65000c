#include "engine/like_flows.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

namespace rehearse::inline engine {
namespace {

using Class = std::uint32_t;

/// Numbers keys in the order in which they come.
template <typename Key>
class Numbers {
 public:
  Class of(Key key) {
    return numbers_.emplace(std::move(key), static_cast<Class>(numbers_.size())).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<Key, Class> numbers_;
};

/// A port's directions, as links of their own.
std::size_t out(std::uint32_t port) { return 2 * std::size_t{port}; }
std::size_t in(std::uint32_t port) { return 2 * std::size_t{port} + 1; }

struct Flow {
  std::size_t plan = 0, number = 0;  ///< in the plan
  double share = 0;
  std::size_t out = 0, in = 0;  ///< links
  Class kind = 0;
};

/// What a link is before flows are looked at. Its port's kind makes no difference to times: bytes
/// are counted by it.
struct Link {
  double rate = 0;
  PortKind kind = PortKind::nic;
  bool inward = false;
  auto operator<=>(const Link&) const = default;
};

/// The partition: of links, and of flows (Flow::kind).
class Classes {
 public:
  Classes(std::vector<Flow>& flows, const std::vector<Link>& links) : of_link_(links.size()) {
    Numbers<Link> first;
    for (std::size_t link = 0; link < links.size(); ++link) of_link_[link] = first.of(links[link]);
    for (std::size_t before = 0, now = first.size(); now != before;) {
      before = now;
      now = refine(flows);
    }
  }

  Class of_link(std::size_t link) const { return of_link_[link]; }
  std::size_t links() const { return links_; }
  std::size_t flows() const { return flows_; }

 private:
  /// Returns how many classes there are.
  std::size_t refine(std::vector<Flow>& flows) {
    Numbers<std::tuple<std::size_t, double, Class, Class>> kinds;
    std::vector<std::vector<Class>> over(of_link_.size());
    for (std::size_t link = 0; link < over.size(); ++link) over[link].push_back(of_link_[link]);
    for (Flow& flow : flows) {
      flow.kind = kinds.of({flow.plan, flow.share, of_link_[flow.out], of_link_[flow.in]});
      over[flow.out].push_back(flow.kind);
      over[flow.in].push_back(flow.kind);
    }
    Numbers<std::vector<Class>> refined;
    for (std::size_t link = 0; link < over.size(); ++link) {
      std::sort(over[link].begin() + 1, over[link].end());
      of_link_[link] = refined.of(std::move(over[link]));
    }
    flows_ = kinds.size();
    return links_ = refined.size();
  }

  std::vector<Class> of_link_;
  std::size_t links_ = 0, flows_ = 0;
};

/// One class of flows, and how it is played.
struct Kind {
  const Flow* first = nullptr;
  std::uint32_t flows = 0;
  std::uint32_t played = 0;  ///< flows between the two links that stand for their classes
};

constexpr std::uint32_t kNoPort = ~0U;

/// Which port stands for which class of links; for none where the flows over it stay as they are.
class Quotient {
 public:
  /// `at_once`: by plan, whether all of its flows begin with it.
  Quotient(const std::vector<Flow>& flows, const Classes& classes, std::size_t links,
           const std::vector<bool>& at_once)
      : classes_(classes), kinds_(classes.flows()), sizes_(classes.links()) {
    for (std::size_t link = 0; link < links; ++link) ++sizes_[classes.of_link(link)];
    for (const Flow& flow : flows) {
      Kind& kind = kinds_[flow.kind];
      if (kind.flows++ == 0) kind.first = &flow;
    }
    merged_.assign(sizes_.size(), true);
    for (const Kind& kind : kinds_)
      if (!at_once[kind.first->plan]) merged_[classes_.of_link(kind.first->out)] = false;
    choose_outs(links);
    do {
      choose_ins(links);
    } while (drop_unequal());
  }

  const Kind& kind(const Flow& flow) const { return kinds_[flow.kind]; }
  bool merges(const Flow& flow) const { return merged_[classes_.of_link(flow.out)]; }
  std::pair<std::uint32_t, std::uint32_t> ports(const Flow& flow) const {
    return {ports_[classes_.of_link(flow.out)], ports_[classes_.of_link(flow.in)]};
  }

 private:
  /// The first of each class.
  void choose_outs(std::size_t links) {
    ports_.assign(sizes_.size(), kNoPort);
    for (std::size_t link = 0; link < links; link += 2) {
      std::uint32_t& port = ports_[classes_.of_link(link)];
      if (port == kNoPort) port = static_cast<std::uint32_t>(link / 2);
    }
  }

  /// The first of each class that no flow into it comes from: a flow joins two ports.
  void choose_ins(std::size_t links) {
    std::vector<std::vector<std::uint32_t>> sources(sizes_.size());
    for (const Kind& kind : kinds_)
      sources[classes_.of_link(kind.first->in)].push_back(
          ports_[classes_.of_link(kind.first->out)]);
    for (std::size_t link = 1; link < links; link += 2) {
      const Class one = classes_.of_link(link);
      const auto port = static_cast<std::uint32_t>(link / 2);
      if (ports_[one] == kNoPort && !std::ranges::count(sources[one], port)) ports_[one] = port;
    }
  }

  /// One flow between two links can stand for a class of flows only where each link that the class
  /// leaves sends as many of them as each that it enters receives (there are as many of the ones as
  /// of the others), and where choose_ins found a port. Other classes stay as they are, and so does
  /// what shares a link with them. True if there are more of these than before.
  bool drop_unequal() {
    bool more = false;
    for (Kind& kind : kinds_) {
      const Class out = classes_.of_link(kind.first->out), in = classes_.of_link(kind.first->in);
      kind.played = kind.flows / sizes_[out];
      if (!merged_[out] && !merged_[in]) continue;
      if (merged_[out] && merged_[in] && sizes_[out] == sizes_[in] && ports_[in] != kNoPort)
        continue;
      merged_[out] = merged_[in] = false;
      more = true;
    }
    return more;
  }

  const Classes& classes_;
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> sizes_;  ///< by class of links
  std::vector<bool> merged_;
  std::vector<std::uint32_t> ports_;
};

/// The plan with one of its flows of each class, as often as it is played.
PlayablePlan merged(const PlayablePlan& whole, std::span<const Flow> flows,
                    const Quotient& quotient, const std::vector<Port>& ports) {
  PlayablePlan few = whole;
  few.plan.flows.clear();
  few.ports.clear();
  few.stands_for.clear();
  for (const Flow& flow : flows) {
    const Kind& kind = quotient.kind(flow);
    const bool merges = quotient.merges(flow);
    if (merges && kind.first != &flow) continue;
    const auto pair = merges ? quotient.ports(flow) : whole.ports[flow.number];
    FlowPlan::Flow played = whole.plan.flows[flow.number];
    played.source = ports[pair.first];
    played.target = ports[pair.second];
    for (std::uint32_t k = 0; k < (merges ? kind.played : 1); ++k) {
      few.plan.flows.push_back(played);
      few.ports.push_back(pair);
      few.stands_for.push_back(merges ? kind.flows / kind.played : 1);
    }
  }
  few.waits_for.assign(few.plan.flows.size(), 0);
  few.next_begin.assign(few.plan.flows.size() + 1, 0);
  return few;
}

}  // namespace

void merge_like_flows(const std::vector<PlayablePlan*>& plans, const std::vector<Port>& ports,
                      const Cluster& cluster) {
  std::vector<Flow> flows;
  std::vector<std::size_t> begins;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    begins.push_back(flows.size());
    for (std::size_t i = 0; i < plans[p]->plan.flows.size(); ++i) {
      const double share = plans[p]->plan.flows[i].share;
      const auto [source, target] = plans[p]->ports[i];
      if (share > 0) flows.push_back({p, i, share, out(source), in(target)});
    }
  }
  begins.push_back(flows.size());
  std::vector<Link> links;
  for (const Port& port : ports)
    for (const bool inward : {false, true})
      links.push_back({port_bandwidth(cluster, port).value(), port.kind, inward});
  const Classes classes(flows, links);
  std::vector<bool> at_once;
  at_once.reserve(plans.size());
  for (const PlayablePlan* plan : plans) at_once.push_back(plan->plan.begins_at_once());
  const Quotient quotient(flows, classes, links.size(), at_once);
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const std::span<const Flow> own(flows.begin() + begins[p], flows.begin() + begins[p + 1]);
    if (at_once[p]) *plans[p] = merged(*plans[p], own, quotient, ports);
  }
}

}  // namespace rehearse::inline engine
