// `rehearse collective`: the table of nccl-tests that is predicted of a cluster.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "config/document.hpp"
#include "predict/predicted_collective.hpp"

namespace rehearse::inline cli {
namespace {

struct CollectiveCommand {
  std::string kind = "all_reduce";
  std::string cluster;  ///< a shipped one, or a .yaml file
  std::optional<int> nodes, gpus_per_node;
  std::vector<std::string> changes;  ///< "nic: 25Gbps", as beside `use:`
  Bytes smallest{8}, largest{8.0 * 1024 * 1024 * 1024};
  AnswerOptions answer;
};

Cluster read_asked_cluster(const CollectiveCommand& command) {
  std::string text = "{use: " + yaml_quoted(command.cluster);
  if (command.nodes) text += fmt::format(", nodes: {}", *command.nodes);
  if (command.gpus_per_node) text += fmt::format(", gpus_per_node: {}", *command.gpus_per_node);
  for (const std::string& change : command.changes) text += ", " + change;
  return read_cluster(Document::parse(text + "}", "--cluster")->root());
}

void time_collective(const CollectiveCommand& command) {
  const Cluster cluster = read_asked_cluster(command);
  if (cluster.gpu_count() < 2)
    throw InputError("--cluster: error: a collective needs two GPUs or more\nremedy: give --nodes");
  check_outputs({{"--output", command.answer.output}});
  if (command.smallest > command.largest)
    throw InputError(fmt::format("--begin: error: {} is more than --end {}",
                                 format(command.smallest), format(command.largest)));
  const PredictedCollective table = predicted_collective(
      cluster, parse_collective_kind(command.kind), command.smallest, command.largest);
  write_answer({.table = [&](int, bool) { return to_table(table); },
                .json = [&] { return to_json(table); },
                .csv = [&] { return to_csv(table); }},
               command.answer);
}

}  // namespace

void add_collective(CLI::App& app) {
  const auto command = std::make_shared<CollectiveCommand>();
  CLI::App& collective =
      *app.add_subcommand("collective", "The table of nccl-tests that is predicted of a cluster");
  add_choice(collective, "--kind", command->kind, "all_reduce, all_gather, reduce_scatter, ...",
             collective_names());
  add(collective, "--cluster", command->cluster, "A shipped cluster, or a .yaml file", "NAME")
      ->required();
  add_count(collective, "--nodes", command->nodes, "Of its nodes with GPUs");
  add_count(collective, "--gpus-per-node", command->gpus_per_node, "Of each node's GPUs", 1, 1024);
  add_repeated(collective, "--change", command->changes,
               "A key beside `use:`, such as \"nic: 25Gbps\" (repeatable)", "KEY");
  add_parsed(collective, "--begin", command->smallest, parse_size_above_0, "Smallest size: 8B",
             "SIZE");
  add_parsed(collective, "--end", command->largest, parse_size_above_0,
             "Largest size: 8GiB; each is twice the one before", "SIZE");
  add_format(collective, command->answer);
  add_output(collective, command->answer);
  collective.callback([command] { time_collective(*command); });
}

}  // namespace rehearse::inline cli
