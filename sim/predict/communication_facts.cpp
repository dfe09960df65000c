#include "predict/communication_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rehearse::inline prediction {
namespace {

/// A reason, and the least and the greatest ratio of the collectives that it holds for.
struct Rescaled {
  std::string reason;
  double least, most;
};

std::string ratio_words(const Rescaled& one) {
  const std::string least = fmt::format("{:.3g}", one.least),
                    most = fmt::format("{:.3g}", one.most);
  return least == most ? least + " times" : fmt::format("{} to {} times", least, most);
}

/// Why a curve does not hold as it is: its placement or kind, then the links.
std::string reason_of(const CollectiveAnswer& answer, const Scenario& scenario) {
  std::string reason = answer.cost.outside;
  if (answer.cost.basis != CostBasis::rescaled || !scenario.comm->links) return reason;
  const std::string unlike = differences(links_of(scenario.cluster), *scenario.comm->links,
                                         answer.ranks > answer.nodes, answer.nodes > 1);
  if (unlike.empty()) return reason;
  return reason.empty() ? unlike : reason + "; " + unlike;
}

std::vector<Rescaled> rescaled(const Scenario& scenario,
                               const std::vector<CollectiveAnswer>& answers) {
  std::vector<Rescaled> all;
  for (const CollectiveAnswer& answer : answers) {
    if (answer.cost.basis != CostBasis::rescaled) continue;
    const std::string reason =
        fmt::format("{}: {}", to_string(answer.kind), reason_of(answer, scenario));
    const auto known = std::ranges::find(all, reason, &Rescaled::reason);
    const double ratio = answer.cost.ratio;
    if (known == all.end()) {
      all.push_back({reason, ratio, ratio});
    } else {
      known->least = std::min(known->least, ratio);
      known->most = std::max(known->most, ratio);
    }
  }
  return all;
}

void add_reason(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

std::string without_profile(const std::vector<CollectiveAnswer>& answers) {
  const bool model = std::ranges::any_of(
      answers, [](const auto& one) { return one.cost.basis == CostBasis::model; });
  return fmt::format("communication: {}, the cluster has no comm_profile",
                     model ? "NCCL's model" : "links alone");
}

bool crosses_nodes(const std::vector<CollectiveAnswer>& answers, bool by_curve) {
  return std::ranges::any_of(answers, [by_curve](const CollectiveAnswer& answer) {
    return answer.nodes > 1 && (!by_curve || answer.cost.basis == CostBasis::curve ||
                                answer.cost.basis == CostBasis::rescaled);
  });
}

/// The NICs' rate where their transport was chosen by it; nothing where it is stated.
const Node* with_unsaid_transport(const Cluster& cluster) {
  for (const NodeGroup& group : cluster.groups)
    if (group.node.nics > 0 && !group.node.transport.stated) return &group.node;
  return nullptr;
}

/// TCP of whose rate nobody says more than that it is TCP, where the NIC could give more.
const Node* with_unknown_tcp_rate(const Cluster& cluster) {
  for (const NodeGroup& group : cluster.groups) {
    const NicTransport& transport = group.node.transport;
    if (group.node.nics > 0 && transport.stated && !transport.rate_known &&
        transport.most() < group.node.nic_bandwidth)
      return &group.node;
  }
  return nullptr;
}

}  // namespace

std::string communication_basis(const Scenario& scenario,
                                const std::vector<CollectiveAnswer>& answers) {
  if (answers.empty())
    return scenario.comm && scenario.comm->transport
               ? fmt::format("measured ({})", scenario.comm->name)
               : "links";
  const auto any = [&](CostBasis basis) {
    return std::ranges::any_of(
        answers, [basis](const CollectiveAnswer& one) { return one.cost.basis == basis; });
  };
  std::vector<std::string> parts;
  if (any(CostBasis::curve)) parts.push_back(fmt::format("measured ({})", scenario.comm->name));
  if (any(CostBasis::rescaled))
    parts.push_back(fmt::format("curve rescaled ({})", scenario.comm->name));
  if (any(CostBasis::model)) parts.emplace_back("NCCL model");
  if (any(CostBasis::gloo)) parts.emplace_back("Gloo model");
  if (any(CostBasis::links)) parts.emplace_back("links");
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::vector<std::string> communication_outside(const Scenario& scenario,
                                               const std::vector<CollectiveAnswer>& answers) {
  std::vector<std::string> reasons;
  if (!scenario.comm) reasons.push_back(without_profile(answers));
  for (const Rescaled& one : rescaled(scenario, answers))
    reasons.push_back(fmt::format("{} (curve rescaled, {})", one.reason, ratio_words(one)));
  for (const CollectiveAnswer& answer : answers) {
    const std::string& outside = answer.cost.outside;
    if (outside.empty() || answer.cost.basis == CostBasis::rescaled) continue;
    const bool by_curve = answer.cost.basis == CostBasis::curve;
    add_reason(reasons,
               by_curve ? fmt::format("{}: {}", to_string(answer.kind), outside) : outside);
  }
  const bool sockets = scenario.comm && scenario.comm->transport;
  if (scenario.comm && scenario.comm->links_assumed && !sockets && crosses_nodes(answers, true))
    reasons.push_back(fmt::format(
        "communication: {} has no `links`: taken to be measured on this cluster's, so that no "
        "faster link shows",
        scenario.comm->name));
  const Node* unsaid = with_unsaid_transport(scenario.cluster);
  if (unsaid && !sockets && crosses_nodes(answers, false)) {
    const bool tcp = unsaid->transport.kind == NicTransport::Kind::tcp;
    reasons.push_back(fmt::format("network: the NICs' transport is not said: {} at {}{}",
                                  to_string(unsaid->transport.kind), format(unsaid->nic_bandwidth),
                                  tcp ? "; the interval holds rdma, too" : ""));
  }
  const Node* slow = with_unknown_tcp_rate(scenario.cluster);
  if (slow && !sockets && crosses_nodes(answers, false)) {
    // It decides more than what else is unknown, so it stands first.
    reasons.insert(reasons.begin(),
                   fmt::format("network: TCP taken to reach {} of a NIC's {}, by {} socket{} a "
                               "connection and what hosts get through; the interval holds all of "
                               "it (transport: {{tcp: {{rate: ...}}}} says it)",
                               format(slow->transport.most()), format(slow->nic_bandwidth),
                               slow->transport.sockets, slow->transport.sockets == 1 ? "" : "s"));
  }
  return reasons;
}

}  // namespace rehearse::inline prediction
