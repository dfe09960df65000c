#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cluster/cluster.hpp"
#include "collective/collective_cost.hpp"
#include "config/document.hpp"

namespace rehearse {
namespace {

/// One line of the table.
using PredictedRow = CollectiveAnswer;

/// The collective over all GPUs of a cluster; a send over its first and last.
struct Asked {
  Cluster cluster;
  std::shared_ptr<const CommProfile> profile;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::vector<RankSpec> ranks;
  Group group;

};

std::string quoted_word(const std::string& text) { return nlohmann::json(text).dump(); }

Cluster read_asked_cluster(const CollectiveCommand& command) {
  std::string text = "{use: " + quoted_word(command.cluster);
  if (command.nodes) text += fmt::format(", nodes: {}", *command.nodes);
  if (command.gpus_per_node) text += fmt::format(", gpus_per_node: {}", *command.gpus_per_node);
  for (const std::string& change : command.changes) text += ", " + change;
  return read_cluster(Document::parse(text + "}", "--cluster")->root());
}

Asked asked_of(const CollectiveCommand& command) {
  Asked asked{.cluster = read_asked_cluster(command),
              .profile = nullptr,
              .kind = parse_collective_kind(command.kind),
              .ranks = {},
              .group = {}};
  asked.profile = load_comm_profile(asked.cluster);
  std::vector<Place> places = gpu_places(asked.cluster);
  if (places.size() < 2)
    throw InputError("--cluster: error: a collective needs two GPUs or more\nremedy: give --nodes");
  if (asked.kind == CollectiveKind::send_recv) places = {places.front(), places.back()};
  std::size_t nodes = 0;
  for (const Place& place : places) {
    if (asked.ranks.empty() || asked.ranks.back().place.node != place.node) ++nodes;
    asked.group.members.emplace_back(asked.ranks.size());
    asked.ranks.push_back({.place = place, .groups = {GroupId(0)}});
  }
  asked.group.name = "all";
  asked.group.ranks = places.size();
  asked.group.nodes = nodes;
  return asked;
}

std::vector<PredictedRow> rows_of(const Asked& asked, Bytes smallest, Bytes largest) {
  CollectiveCosts costs(asked.profile.get(), asked.cluster, asked.ranks);
  std::map<CollectiveAlgorithm, FlowPlan> plans;
  std::vector<PredictedRow> rows;
  for (Bytes size = smallest; size <= largest; size *= 2) {
    const CollectiveAlgorithm chosen =
        costs.choice(asked.kind, size, asked.group).value_or(CollectiveAlgorithm::ring);
    const auto [at, fresh] = plans.try_emplace(chosen);
    if (fresh) {
      at->second = plan_collective(asked.kind, chosen, asked.group, asked.ranks, asked.cluster,
                                   Fidelity::flow);
    }
    const LinkCost links{at->second.latency, at->second.seconds_per_byte};
    rows.push_back({.kind = asked.kind,
                    .size = size,
                    .group = GroupId(0),
                    .ranks = static_cast<int>(asked.group.ranks),
                    .nodes = static_cast<int>(asked.group.nodes),
                    .played = at->second.algorithm,
                    .cost = costs.cost(asked.kind, size, asked.group, at->second, links)});
  }
  return rows;
}

double algbw(const PredictedRow& row) { return (row.size / row.cost.total()).value() / 1e9; }
double busbw(const PredictedRow& row) { return row.busbw().value() / 1e9; }
std::string protocol_of(const PredictedRow& row) {
  return row.protocol().empty() ? "-" : row.protocol();
}

std::string title_of_table(const Asked& asked) {
  const std::size_t nodes = asked.group.nodes;
  return fmt::format("{} over {} ranks on {} node{} of {}", to_string(asked.kind),
                     asked.group.ranks, nodes, nodes == 1 ? "" : "s", asked.cluster.name);
}

// nccl-tests' columns, without those of in-place runs and of checks, then what only a prediction
// has.
std::string collective_table(const Asked& asked, const std::vector<PredictedRow>& rows) {
  std::string text = fmt::format("# {}: predicted, out of place\n", title_of_table(asked));
  if (asked.profile) text += fmt::format("# curves: {}\n", asked.profile->name);
  text += fmt::format("#{:>13} {:>12} {:>7} {:>11} {:>8} {:>8} {:>11} {:>11}  {:<9} {:<8} {}\n",
                      "size", "count", "type", "time", "algbw", "busbw", "90% from", "to",
                      "algorithm", "protocol", "answered by");
  text += fmt::format("#{:>13} {:>12} {:>7} {:>11} {:>8} {:>8} {:>11} {:>11}\n", "(B)",
                      "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "(us)", "(us)");
  for (const PredictedRow& row : rows) {
    const double us = row.cost.total().value() * 1e6, spread = std::exp(row.cost.uncertainty);
    text += fmt::format(
        "{:>14.0f} {:>12.0f} {:>7} {:>11.2f} {:>8.2f} {:>8.2f} {:>11.2f} {:>11.2f}  {:<9} {:<8} {}\n",
        row.size.value(), row.size.value() / 4, "float", us, algbw(row), busbw(row),
        us / spread, us * spread, row.algorithm(), protocol_of(row),
        to_string(row.cost.basis));
  }
  return text;
}

std::string collective_csv(const Asked& asked, const std::vector<PredictedRow>& rows) {
  std::string text =
      "collective,ranks,nodes,bytes,time_us,low_us,high_us,algbw_GBps,busbw_GBps,algorithm,"
      "protocol,answered_by\n";
  for (const PredictedRow& row : rows) {
    const double us = row.cost.total().value() * 1e6, spread = std::exp(row.cost.uncertainty);
    text += fmt::format("{},{},{},{:.0f},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{}\n",
                        to_string(asked.kind), asked.group.ranks, asked.group.nodes,
                        row.size.value(), us, us / spread, us * spread, algbw(row),
                        busbw(row), row.algorithm(), protocol_of(row),
                        to_string(row.cost.basis));
  }
  return text;
}

std::string collective_json(const Asked& asked, const std::vector<PredictedRow>& rows) {
  nlohmann::ordered_json document{{"schema", "rehearse.collective/1"},
                                  {"collective", to_string(asked.kind)},
                                  {"cluster", asked.cluster.name},
                                  {"ranks", asked.group.ranks},
                                  {"nodes", asked.group.nodes}};
  auto& list = document["rows"] = nlohmann::ordered_json::array();
  for (const PredictedRow& row : rows) {
    const double seconds = row.cost.total().value(), spread = std::exp(row.cost.uncertainty);
    list.push_back({{"bytes", row.size.value()},
                    {"time_s", seconds},
                    {"low_s", seconds / spread},
                    {"high_s", seconds * spread},
                    {"algbw_GBps", algbw(row)},
                    {"busbw_GBps", busbw(row)},
                    {"algorithm", row.algorithm()},
                    {"protocol", protocol_of(row)},
                    {"answered_by", to_string(row.cost.basis)},
                    {"outside", row.cost.outside}});
  }
  return document.dump(2) + "\n";
}

}  // namespace

void collective_command(const CollectiveCommand& command) {
  const Asked asked = asked_of(command);
  check_outputs({{"--output", command.output}});
  if (command.smallest > command.largest)
    throw InputError(fmt::format("--begin: error: {} is more than --end {}",
                                 format(command.smallest), format(command.largest)));
  const std::vector<PredictedRow> rows = rows_of(asked, command.smallest, command.largest);
  write_result(command.output, command.format == "json"  ? collective_json(asked, rows)
                               : command.format == "csv" ? collective_csv(asked, rows)
                                                         : collective_table(asked, rows));
}

}  // namespace rehearse
