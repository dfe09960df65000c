#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "scenario/sections.hpp"
#include "strategy/server/server_host.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

/// Groups that shard divide the ranks, and what is left after forward divides those.
void check_fsdp(Map& options, const ShardedParameters& fsdp, const Cluster& cluster,
                std::size_t ranks) {
  const auto of_node = static_cast<std::size_t>(cluster.groups.front().node.gpus);
  const std::size_t group =
      fsdp.shard_group > 0 ? static_cast<std::size_t>(fsdp.shard_group) : of_node;
  if (fsdp.hybrid() && (group == 0 || ranks % group != 0))
    options.require(options.has("shard_group") ? "shard_group" : "sharding")
        .fail(fmt::format("{} ranks do not divide into groups of {}", ranks, group),
              fmt::format("shard_group: a divisor of {}", ranks));
  const std::size_t sharing = fsdp.hybrid() ? group : ranks;
  const auto part = static_cast<std::size_t>(fsdp.post_forward_group);
  if (part == 0 || (part < sharing && sharing % part == 0)) return;
  options.require("reshard_after_forward")
      .fail(fmt::format("{} are no part of the {} ranks that share parameters, as FSDP2 asks", part,
                        sharing),
            "another number, true or false");
}

/// Autocast and param_dtype are of one 16-bit type, and what was measured is of the precision that
/// units compute in.
void check_mixed_precision(Map& options, const ShardedParameters& fsdp, const CostChoice& choice,
                           const Scenario& scenario) {
  if (!fsdp.param_dtype || scenario.model.units.empty()) return;
  const Precision computes = computes_in(fsdp, scenario.precision);
  const bool autocast_fp16 = scenario.precision == Precision::fp16;
  const bool computes_fp16 =
      computes == Precision::fp16_pure_autocast || computes == Precision::fp16;
  if (is_autocast(computes) && autocast_fp16 != computes_fp16) {
    options.require("param_dtype")
        .fail(fmt::format("model.precision: {} is autocast in another 16-bit type",
                          to_string(scenario.precision)),
              autocast_fp16 ? "param_dtype: fp16" : "param_dtype: bf16");
  }
  const bool measured = choice.profile || !choice.transfer_from.empty();
  if (measured && computes != computed_in(scenario.precision)) {
    options.require("param_dtype")
        .fail(
            fmt::format("the model's costs were measured in {}; with this its units compute in {}",
                        to_string(computed_in(scenario.precision)), to_string(computes)),
            "leave it out, or take computed costs of a built-in network by model.costs: analytic");
  }
}

void check_parameter_server(Map& options, const Strategy& strategy, const Cluster& cluster) {
  const ParameterServer& ps = *server_in(strategy);
  const std::size_t workers = worker_count(strategy, cluster);
  if (static_cast<std::size_t>(ps.backup_workers) >= workers) {
    options.require("backup_workers")
        .fail(fmt::format("{} of {} workers as backup leave none whose gradients count",
                          ps.backup_workers, workers),
              fmt::format("at most {}", workers - 1));
  }
  if (static_cast<std::size_t>(ps.sampled_workers) > workers) {
    options.require("sampled_workers")
        .fail(fmt::format("the cluster has {} workers", workers),
              fmt::format("at most {}", workers));
  }
  if (ps.server_host.empty() || ps.server_host == "worker") return;
  std::vector<std::string> names = {"worker"};
  for (const NodeGroup& group : cluster.groups) {
    if (!group.name.empty()) names.push_back(group.name);
  }
  options.require("server_host").as_choice(names);
}

/// Replicas have equal numbers of GPUs, which only a strategy beside local_sgd keeps in step.
void check_local_sgd(Map& named, const Strategy& strategy, const Cluster& cluster) {
  const std::size_t gpus = cluster.gpu_count();
  Map options = named.require("local_sgd").as_map();
  const auto count = static_cast<std::size_t>(strategy.local_sgd->replicas);
  if (count > 0 && gpus % count != 0)
    options.require("replicas")
        .fail(fmt::format("{} GPUs do not divide among {} replicas", gpus, count),
              fmt::format("a divisor of {}", gpus));
  if (count == 1)
    options.require("replicas")
        .fail("one replica averages with nobody", "two or more, or remove local_sgd");
  const bool alone = is_alone(strategy);
  if (alone && count > 0 && gpus != count)
    options.require("replicas")
        .fail(fmt::format("nothing keeps the {} GPUs of a replica in step", gpus / count),
              "write ddp: {} beside local_sgd, or remove replicas");
  if (!alone && count == 0 && gpus % replica_count(strategy, cluster) != 0)
    named.require("local_sgd")
        .fail("nodes have unlike numbers of GPUs, so none is a replica like another",
              "set replicas");
}

}  // namespace

void check_strategy_section(const Value& value, const CostChoice& choice,
                            const Scenario& scenario) {
  Map named = value.as_map();
  if (scenario.strategy.local_sgd) check_local_sgd(named, scenario.strategy, scenario.cluster);
  // Degrees of a layout may stand before the kind of data parallelism, and local_sgd beside it.
  const auto kind = std::ranges::find_if(strategy_names(), [&](const std::string& name) {
    return name != "local_sgd" && named.has(name);
  });
  if (kind == strategy_names().end()) return;
  Map options = named.require(*kind).as_map();
  if (const auto fsdp = sharded_in(scenario.strategy); fsdp && !scenario.strategy.layout) {
    const std::size_t apart = replica_count(scenario.strategy, scenario.cluster);
    check_fsdp(options, *fsdp, scenario.cluster,
               scenario.cluster.gpu_count() / std::max<std::size_t>(1, apart));
    check_mixed_precision(options, *fsdp, choice, scenario);
  }
  if (server_in(scenario.strategy) != nullptr)
    check_parameter_server(options, scenario.strategy, scenario.cluster);
}

}  // namespace rehearse::inline scenario
