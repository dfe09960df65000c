#include "foreign/traces/chakra_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/error.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline foreign {
namespace {

ChakraCollective kind_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return ChakraCollective::all_reduce;
    case CollectiveKind::all_gather:
      return ChakraCollective::all_gather;
    case CollectiveKind::reduce_scatter:
      return ChakraCollective::reduce_scatter;
    case CollectiveKind::broadcast:
      return ChakraCollective::broadcast;
    case CollectiveKind::reduce:
      return ChakraCollective::reduce;
    case CollectiveKind::all_to_all:
      return ChakraCollective::all_to_all;
    case CollectiveKind::send_recv:
      break;
  }
  return ChakraCollective::barrier;
}

std::string name_of(std::int64_t collective) {
  static const std::map<std::int64_t, std::string> kNames = {
      {0, "all_reduce"}, {1, "reduce"},         {2, "all_gather"},
      {3, "gather"},     {4, "scatter"},        {5, "broadcast"},
      {6, "all_to_all"}, {7, "reduce_scatter"}, {8, "reduce_scatter_block"},
      {9, "barrier"}};
  const auto found = kNames.find(collective);
  return found == kNames.end() ? fmt::format("collective {}", collective) : found->second;
}

/// A message from the first member of a group of two to the second one; null: something else. Both
/// have a group's messages in one order, which numbers them.
constexpr std::size_t kMostMessages = 4096;
const Collective* as_message(const Op& op) {
  const auto* collective = std::get_if<Collective>(&op.work);
  return collective != nullptr && collective->kind == CollectiveKind::send_recv ? collective
                                                                                : nullptr;
}

/// A join takes no node: this stands in its place, with all that it comes after.
void add_deps(const std::vector<std::vector<std::uint64_t>>& stands_for, std::size_t op,
              std::set<std::uint64_t>& to) {
  to.insert(stands_for[op].begin(), stands_for[op].end());
}

/// Seconds of the longest chain, in whatever order the nodes stand. InputError where nodes wait for
/// each other; what waits for a node that is not there waits for nothing.
double longest(const std::vector<ChakraNode>& nodes, const std::string& file) {
  std::unordered_map<std::uint64_t, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) places.emplace(nodes[i].id, i);
  std::vector<std::vector<std::size_t>> behind(nodes.size());
  std::vector<std::size_t> open(nodes.size()), ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto* list : {&nodes[i].control, &nodes[i].data})
      for (const std::uint64_t id : *list)
        if (const auto before = places.find(id); before != places.end()) {
          behind[before->second].push_back(i);
          ++open[i];
        }
    if (open[i] == 0) ready.push_back(i);
  }
  std::vector<double> begins(nodes.size());
  double most = 0;
  std::size_t done = 0;
  for (; !ready.empty(); ++done) {
    const std::size_t at = ready.back();
    ready.pop_back();
    const double end = begins[at] + 1e-6 * static_cast<double>(nodes[at].duration_micros);
    most = std::max(most, end);
    for (const std::size_t next : behind[at]) {
      begins[next] = std::max(begins[next], end);
      if (--open[next] == 0) ready.push_back(next);
    }
  }
  if (done < nodes.size())
    throw InputError(fmt::format("{}: error: {} of {} nodes wait for each other in a circle", file,
                                 nodes.size() - done, nodes.size()));
  return most;
}

}  // namespace

std::vector<ChakraNode> chakra_nodes(const Schedule& schedule, std::size_t rank) {
  const RankSpec& spec = schedule.ranks.at(rank);
  const Program& program = schedule.programs.at(spec.program.index());
  std::vector<ChakraNode> nodes;
  std::vector<std::vector<std::uint64_t>> stands_for(program.ops.size());
  std::map<std::size_t, std::size_t> last_of_lane;
  std::map<std::size_t, std::size_t> messages;  ///< of each group, so far
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.queue)
      throw InputError("rehearse: error: queues of servers are nothing that Chakra has");
    std::set<std::uint64_t> data, control;
    for (const After& after : op.after)
      if (after.distance == 0 && after.op.index() < i) add_deps(stands_for, after.op.index(), data);
    if (op.lane) {
      const auto last = last_of_lane.find(op.lane->index());
      if (last != last_of_lane.end()) add_deps(stands_for, last->second, control);
      last_of_lane[op.lane->index()] = i;
    }
    if (std::holds_alternative<Join>(op.work)) {
      data.insert(control.begin(), control.end());
      stands_for[i].assign(data.begin(), data.end());
      continue;
    }
    ChakraNode node;
    node.id = i;
    node.name = op.title();
    node.on_host = op.lane && program.lanes.at(op.lane->index()).kind == LaneKind::host;
    node.data.assign(data.begin(), data.end());
    for (const std::uint64_t id : control)
      if (!data.contains(id)) node.control.push_back(id);
    if (const auto* compute = std::get_if<Compute>(&op.work)) {
      node.duration_micros =
          static_cast<std::uint64_t>(std::llround(1e6 * compute->duration.value() * spec.slowdown));
    } else if (const auto* message = as_message(op)) {
      const std::size_t group = spec.groups.at(message->group).index();
      const auto& members = schedule.groups.at(group).members;
      node.type = members.front().index() == rank ? ChakraType::send : ChakraType::receive;
      node.source = static_cast<std::int32_t>(members.front().index());
      node.target = static_cast<std::int32_t>(members.back().index());
      node.tag = static_cast<std::int32_t>(group * kMostMessages + messages[group]++);
      node.bytes = static_cast<std::int64_t>(message->size.value());
    } else if (const auto* collective = std::get_if<Collective>(&op.work)) {
      node.type = ChakraType::collective;
      node.collective = static_cast<std::int64_t>(kind_of(collective->kind));
      node.bytes = static_cast<std::int64_t>(collective->size.value());
      node.group = std::to_string(spec.groups.at(collective->group).index());
    } else if (const auto* transfer = std::get_if<Transfer>(&op.work)) {
      const bool sends = !transfer->source;
      node.type = sends ? ChakraType::send : ChakraType::receive;
      const auto self = static_cast<std::int32_t>(rank);
      node.source = transfer->source ? static_cast<std::int32_t>(transfer->source->index()) : self;
      node.target = transfer->target ? static_cast<std::int32_t>(transfer->target->index()) : self;
      node.bytes = static_cast<std::int64_t>(transfer->size.value());
    }
    stands_for[i] = {node.id};
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string chakra_groups(const Schedule& schedule) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < schedule.groups.size(); ++i) {
    auto& members = groups[std::to_string(i)] = nlohmann::ordered_json::array();
    for (const RankId member : schedule.groups[i].members) members.push_back(member.index());
  }
  return json_text(groups, 1) + "\n";
}

std::string chakra_summary(const std::vector<ChakraFile>& files) {
  std::string text;
  for (const ChakraFile& file : files) {
    double compute = 0, host = 0;
    struct Kind {
      std::int64_t count = 0, bytes = 0;
      double seconds = 0;
    };
    std::map<std::string, Kind> kinds;
    for (const ChakraNode& node : file.nodes) {
      const double seconds = 1e-6 * static_cast<double>(node.duration_micros);
      if (node.type == ChakraType::compute) (node.on_host ? host : compute) += seconds;
      if (node.type == ChakraType::compute) continue;
      const std::string name = node.type == ChakraType::send      ? "send"
                               : node.type == ChakraType::receive ? "receive"
                                                                  : name_of(node.collective);
      Kind& kind = kinds[name + (node.group.empty() ? "" : " in group " + node.group)];
      ++kind.count;
      kind.bytes += node.bytes;
      kind.seconds += seconds;
    }
    text +=
        fmt::format("{}: {} nodes, compute {:.6g} s, host {:.6g} s, longest chain {:.6g} s\n",
                    file.name, file.nodes.size(), compute, host, longest(file.nodes, file.name));
    for (const auto& [name, kind] : kinds)
      text += fmt::format("  {}: {}, {:.6g} MB, {:.6g} s\n", name, kind.count,
                          1e-6 * static_cast<double>(kind.bytes), kind.seconds);
  }
  return text;
}

}  // namespace rehearse::inline foreign
