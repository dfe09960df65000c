#include "collective/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "collective/gloo_model.hpp"

namespace rehearse::inline collective {
namespace {

bool has_parts_of_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

std::string placement(int ranks, int nodes) {
  return nodes == 1 ? fmt::format("{}", ranks) : fmt::format("{} on {} nodes", ranks, nodes);
}

void add(std::string& reasons, const std::string& reason) {
  if (!reasons.empty()) reasons += "; ";
  reasons += reason;
}

std::string reasons_outside(const CommCurve& curve, CollectiveKind kind, Bytes size, int ranks,
                            int nodes) {
  std::string reasons;
  if (curve.kind != kind)
    add(reasons, fmt::format("{} derived from {}", to_string(kind), to_string(curve.kind)));
  if (curve.ranks != ranks || curve.nodes != nodes) {
    const std::string wanted = nodes == 1 ? fmt::format("{} ranks", ranks)
                                          : fmt::format("{} ranks on {} nodes", ranks, nodes);
    add(reasons, fmt::format("{} from a curve of {}", wanted, placement(curve.ranks, curve.nodes)));
  }
  if (size > curve.largest)
    add(reasons, fmt::format("{} above the measured {}", format(size), format(curve.largest)));
  if (size < curve.smallest) {
    add(reasons, fmt::format("{} below the measured {}", format(size), format(curve.smallest)));
  }
  return reasons;
}

int ranks_of(const Group& group) { return static_cast<int>(group.ranks); }
int nodes_of(const Group& group) { return static_cast<int>(group.nodes); }

bool staged_at_unsaid_rate(const FlowPlan& plan, const Group& group, const Cluster& cluster) {
  return group.nodes == 1 && std::ranges::any_of(plan.flows, [&](const FlowPlan::Flow& flow) {
           return flow.share > 0 && staged(cluster, {flow.source, flow.target}) &&
                  !cluster.node(flow.source.node).pcie.staged_rate_stated;
         });
}

double between_machines(Bytes size) {
  constexpr Bytes kMiB(1024.0 * 1024.0);
  if (size < 4 * kMiB) return kMachinesSmall;
  return size < 256 * kMiB ? kMachinesMiddle : kMachinesLarge;
}

bool is_shipped(const std::string& file) {
  const std::string folder = (data_folder() / "platforms").string();
  return file.starts_with(folder);
}

/// The measured time over that of NCCL's model there. On two nodes newer trees send half of what
/// rings do, which more nodes' do not: a log that is far slower than such a tree, and near a ring,
/// is a ring's, and its ratio to that goes on to other numbers of nodes.
double off_model(const NcclMachine& there, const CommCurve& curve, Bytes size, bool goes_on) {
  const Seconds measured = curve.cost(size).total();
  const double off = measured / nccl_estimate(there, curve.kind, size).total();
  if (!goes_on || curve.nodes != 2 || off < kAnotherFabric) return off;
  std::optional<double> ring;
  for (const NcclEstimate& one : nccl_candidates(there, curve.kind, size))
    if (one.algorithm == NcclAlgorithm::ring)
      ring = std::max(ring.value_or(0), measured / one.total());
  return ring && std::abs(std::log(*ring)) < std::log(off) ? *ring : off;
}

bool alike(Seconds a, Seconds b) { return std::abs(a / b - 1) <= 1e-9; }

/// More than twice, or less than half.
bool far(int here, int there) { return here > 2 * there || there > 2 * here; }

}  // namespace

std::string to_string(CostBasis basis) {
  switch (basis) {
    case CostBasis::curve:
      return "measured";
    case CostBasis::rescaled:
      return "curve rescaled";
    case CostBasis::model:
      return "NCCL model";
    case CostBasis::gloo:
      return "Gloo model";
    case CostBasis::links:
      return "links";
  }
  throw InternalError("internal error: a cost without a basis");
}

std::string CollectiveAnswer::algorithm() const {
  return cost.estimate ? to_string(cost.estimate->algorithm) : to_string(played);
}

std::string CollectiveAnswer::protocol() const {
  return cost.estimate ? to_string(cost.estimate->protocol) : "";
}

BytesPerSecond CollectiveAnswer::busbw() const {
  if (cost.total() <= Seconds(0)) return BytesPerSecond(0);
  return size * bus_factor(kind, ranks) / cost.total();
}

std::shared_ptr<const CommProfile> load_comm_profile(const Cluster& cluster) {
  if (cluster.comm_profile.empty()) return nullptr;
  CommProfile profile = read_comm_profile(Document::load(cluster.comm_profile)->root());
  profile.links_assumed = !profile.links;
  profile.shipped = is_shipped(cluster.comm_profile);
  if (!profile.links && cluster.gpu_count() > 0) profile.links = links_of(cluster);
  return std::make_shared<const CommProfile>(std::move(profile));
}

bool is_gloos(const CommProfile& profile) {
  return profile.source.find("gloo") != std::string::npos;
}

CollectiveAlgorithm plan_of(NcclAlgorithm algorithm, CollectiveKind kind) {
  switch (algorithm) {
    case NcclAlgorithm::tree:
    case NcclAlgorithm::nvls_tree:
    case NcclAlgorithm::collnet:
      return CollectiveAlgorithm::tree;
    case NcclAlgorithm::direct:
      return kind == CollectiveKind::all_to_all ? CollectiveAlgorithm::direct
                                                : CollectiveAlgorithm::ring;
    case NcclAlgorithm::ring:
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::pat:
      return CollectiveAlgorithm::ring;
  }
  throw InternalError("internal error: an algorithm without a plan");
}

const NcclMachine& CollectiveCosts::machine_of(const Group& group) {
  const auto known = machines_.find(&group);
  if (known != machines_.end()) return known->second;
  std::vector<Place> places;
  places.reserve(group.members.size());
  for (const RankId member : group.members) places.push_back(ranks_[member.index()].place);
  return machines_
      .emplace(&group, nccl_machine(cluster_, places, ranks_of(group), nodes_of(group), slowed_))
      .first->second;
}

NcclMachine CollectiveCosts::machine_of(const CommCurve& curve, const NcclMachine& here) const {
  const Cluster measured = cluster_on(*profile_->links, curve.ranks, curve.nodes);
  std::vector<Place> places = gpu_places(measured);
  places.resize(std::min(places.size(), static_cast<std::size_t>(curve.ranks)));
  NcclMachine there = nccl_machine(measured, places, curve.ranks, curve.nodes);
  there.architecture = here.architecture;
  there.options = here.options;
  if (profile_->nccl && here.options.version)
    there.options.version = NcclVersion{profile_->nccl->first, profile_->nccl->second};
  return there;
}

/// Hierarchical and direct algorithms are none of NCCL's.
bool CollectiveCosts::modelled(const FlowPlan& plan, CollectiveKind kind) const {
  if (cluster_.collectives != CollectiveModel::nccl) return false;
  return plan.algorithm == CollectiveAlgorithm::ring ||
         plan.algorithm == CollectiveAlgorithm::tree || kind == CollectiveKind::all_to_all;
}

/// The best of those that the plan stands for; of all where it stands for none. What a protocol
/// adds on NICs, it adds on cables behind them.
NcclEstimate CollectiveCosts::estimate(CollectiveKind kind, Bytes size, const Group& group,
                                       const FlowPlan& plan) {
  std::vector<NcclEstimate> all = nccl_candidates(machine_of(group), kind, size);
  const auto other = [&](const NcclEstimate& one) {
    return plan_of(one.algorithm, kind) != plan.algorithm;
  };
  if (!std::ranges::all_of(all, other)) std::erase_if(all, other);
  const double behind = plan.loads.between > 0 ? plan.loads.cables / plan.loads.between : 0;
  return std::ranges::min(all, {}, [&](const NcclEstimate& one) {
    return one.latency + std::max(one.transfer(), one.between * behind);
  });
}

/// NICs and the links behind them are idle for a part of a time that NVLink bounds: they carry what
/// the protocol takes there. A measured time that is longer or shorter than the model's
/// is so on the links that bound it.
void CollectiveCosts::place(CollectiveCost& cost, Bytes size, const FlowPlan& plan) const {
  const FlowPlan::Loads& loads = plan.loads;
  const double all = cost.transfer / Seconds(size.value() * plan.seconds_per_byte);
  cost.inside_scale = cost.between_scale = all;
  if (cost.estimate && loads.inside > 0 && loads.between > 0 && plan.after.empty()) {
    const double off = cost.transfer / cost.estimate->transfer();
    const bool inside = cost.estimate->inside > cost.estimate->between;
    const Seconds less =
        (inside ? cost.estimate->between : cost.estimate->inside) * std::min(off, 1.0);
    (inside ? cost.inside_scale : cost.between_scale) =
        cost.transfer / Seconds(size.value() * (inside ? loads.inside : loads.between));
    (inside ? cost.between_scale : cost.inside_scale) =
        less / Seconds(size.value() * (inside ? loads.between : loads.inside));
  }
  cost.transfer =
      std::max(cost.transfer, Seconds(size.value() * loads.cables * cost.between_scale));
}

std::vector<CollectiveAlgorithm> CollectiveCosts::choices(CollectiveKind kind, Bytes size,
                                                          const Group& group) {
  if (goes_by_gloo()) return {CollectiveAlgorithm::ring};
  if (cluster_.collectives != CollectiveModel::nccl || group.ranks < 2) return {};
  std::vector<NcclEstimate> all = nccl_candidates(machine_of(group), kind, size);
  std::ranges::stable_sort(all, {}, &NcclEstimate::total);
  std::vector<CollectiveAlgorithm> plans;
  for (const NcclEstimate& one : all) {
    const CollectiveAlgorithm plan = plan_of(one.algorithm, kind);
    if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
  }
  return plans;
}

const CommCurve* CollectiveCosts::curve_for(CollectiveKind kind, const Group& group) const {
  if (!profile_) return nullptr;
  const CommCurve* curve = profile_->nearest(kind, ranks_of(group), nodes_of(group));
  if (curve || !has_parts_of_all_reduce(kind)) return curve;
  return profile_->nearest(CollectiveKind::all_reduce, ranks_of(group), nodes_of(group));
}

CollectiveCost CollectiveCosts::carried(const CommCurve& curve, CollectiveKind kind, Bytes size,
                                        const Group& group, const FlowPlan& plan,
                                        const LinkCost& links) {
  const int ranks = ranks_of(group), nodes = nodes_of(group);
  const NcclMachine& here = machine_of(group);
  const NcclEstimate now = estimate(kind, size, group, plan);
  const NcclMachine there = profile_->links ? machine_of(curve, here) : here;
  const bool same_place = curve.ranks == ranks && curve.nodes == nodes;
  const bool own =
      curve.kind == kind && same_place &&
      alike(nccl_estimate(here, kind, size).total(), nccl_estimate(there, kind, size).total());
  CollectiveCost cost{.outside = reasons_outside(curve, kind, size, ranks, nodes),
                      .uncertainty = curve.uncertainty(size),
                      .estimate = now};
  if (own && curve.holds(size)) {
    const CommCost measured = curve.cost(size);
    cost.latency = measured.latency;
    cost.transfer = measured.transfer;
    cost.basis = CostBasis::curve;
    if (profile_->shipped) cost.uncertainty = std::max(cost.uncertainty, between_machines(size));
  } else {
    // Where the curve's busiest port moves as much, within the sizes that it has.
    const double factor = bus_factor(kind, ranks) / bus_factor(curve.kind, curve.ranks);
    const Bytes alike_size = curve.kind == kind ? size : size * factor;
    const Bytes measured_size = std::clamp(alike_size, curve.smallest, curve.largest);
    const double off = off_model(there, curve, measured_size, curve.nodes != nodes);
    cost.latency = now.latency * off;
    cost.transfer = now.transfer() * off;
    cost.basis = CostBasis::rescaled;
    cost.ratio = cost.total() / curve.cost(alike_size).total();
    const double least = curve.kind != kind && same_place && nodes == 1
                             ? kDerivedError
                             : (size >= kLargeMessage ? kRescaledLarge : kRescaledSmall);
    cost.uncertainty = std::max(2 * curve.uncertainty(size), least);
    const double unlike = std::abs(std::log(off));
    if (nodes > 1 && measured_size >= kLargeMessage && unlike > std::log(kAnotherFabric)) {
      add(cost.outside,
          fmt::format("{:.2g} times NCCL's model where it was measured, as of another "
                      "NCCL or another fabric",
                      off));
      cost.uncertainty = std::max(cost.uncertainty, unlike);
    }
    if (far(ranks, curve.ranks) || far(nodes, curve.nodes))
      cost.uncertainty = std::max(cost.uncertainty, nccl_uncertainty(here, kind, size, now));
  }
  if (profile_->links_assumed) {
    // No algorithm sends less than half of what a ring does, whatever it was measured on.
    cost.transfer = std::max(cost.transfer, Seconds(0.5 * size.value() * links.seconds_per_byte));
  }
  return cost;
}

CollectiveCost CollectiveCosts::by_model(CollectiveKind kind, Bytes size, const Group& group,
                                         const FlowPlan& plan) {
  const NcclMachine& machine = machine_of(group);
  const NcclEstimate now = estimate(kind, size, group, plan);
  double uncertainty = nccl_uncertainty(machine, kind, size, now);
  if (staged_at_unsaid_rate(plan, group, cluster_)) uncertainty = kStagedError;
  return {.latency = now.latency,
          .transfer = now.transfer(),
          .basis = CostBasis::model,
          .uncertainty = uncertainty,
          .estimate = now};
}

bool CollectiveCosts::goes_by_gloo() const { return cluster_.collectives == CollectiveModel::gloo; }

CollectiveCost CollectiveCosts::by_gloo(CollectiveKind kind, Bytes size, const Group& group) const {
  GlooOptions options = cluster_.gloo;
  const CommCurve* const own =
      profile_ ? profile_->nearest(CollectiveKind::all_reduce, ranks_of(group), 1) : nullptr;
  // A curve is of one at a time.
  if (own != nullptr) {
    const double faster = own->segments.back().busbw / options.alone;
    options.alone *= faster;
    options.rate *= faster;
  }
  const Node& node = cluster_.node(ranks_[group.members.front().index()].place.node);
  const GlooTime time = gloo_time(kind, size, ranks_of(group), nodes_of(group), node, options);
  return {.latency = time.latency,
          .transfer = time.transfer,
          .basis = CostBasis::gloo,
          .uncertainty = kGlooError};
}

CollectiveCost CollectiveCosts::by_links(Bytes size, const Group& group, const FlowPlan& plan,
                                         const LinkCost& links) const {
  double uncertainty = kLinksError;
  if (plan.algorithm == CollectiveAlgorithm::tree && group.nodes == 2)
    uncertainty = kTwoNodeTreeError;
  else if (staged_at_unsaid_rate(plan, group, cluster_))
    uncertainty = kStagedError;
  return {.latency = links.latency,
          .transfer = Seconds(size.value() * links.seconds_per_byte),
          .basis = CostBasis::links,
          .uncertainty = uncertainty};
}

/// So that no collective gets faster by leaving a node.
Seconds CollectiveCosts::beyond_the_model(CollectiveKind kind, const Group& group) {
  const NcclMachine& machine = machine_of(group);
  const CommCurve* node = profile_->nearest(kind, machine.local(), 1);
  if (!node && has_parts_of_all_reduce(kind))
    node = profile_->nearest(CollectiveKind::all_reduce, machine.local(), 1);
  if (!node || !profile_->links) return Seconds(0);
  const Seconds modelled =
      nccl_estimate(machine_of(*node, machine), node->kind, node->smallest).total();
  return std::max(Seconds(0), node->cost(node->smallest).total() - modelled);
}

CollectiveCost CollectiveCosts::cost(CollectiveKind kind, Bytes size, const Group& group,
                                     const FlowPlan& plan, const LinkCost& links) {
  CollectiveCost cost = without_channels(kind, size, group, plan, links);
  if (size.value() * plan.seconds_per_byte > 0) place(cost, size, plan);
  if (cost.estimate) {
    cost.channels = nccl_channels(machine_of(group), kind, size, *cost.estimate);
    cost.compute_slowdown = nccl_compute_slowdown(machine_of(group), cost.channels);
  }
  return cost;
}

CollectiveCost CollectiveCosts::without_channels(CollectiveKind kind, Bytes size,
                                                 const Group& group, const FlowPlan& plan,
                                                 const LinkCost& links) {
  const CommCurve* const curve = curve_for(kind, group);
  const bool measured_here = curve != nullptr && curve->kind == kind &&
                             curve->ranks == ranks_of(group) && curve->nodes == nodes_of(group);
  if (goes_by_gloo() && !measured_here) return by_gloo(kind, size, group);
  if (curve != nullptr) return carried(*curve, kind, size, group, plan, links);
  const bool model = modelled(plan, kind);
  CollectiveCost cost =
      model ? by_model(kind, size, group, plan) : by_links(size, group, plan, links);
  if (!profile_) return cost;
  const int nodes = nodes_of(group);
  if (model && nodes > 1) cost.latency += beyond_the_model(kind, group);
  cost.outside = fmt::format("{} on {} ranks of {} node{}: no curve in {}, {}", to_string(kind),
                             ranks_of(group), nodes, nodes == 1 ? "" : "s", profile_->name,
                             model ? "NCCL's model" : "links alone");
  return cost;
}

}  // namespace rehearse::inline collective
