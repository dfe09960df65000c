#include <fmt/format.h>

#include "scenario/sections.hpp"

namespace rehearse::inline scenario {

JobsSection::JobsSection(const Value& value, Scenario& scenario) : map_(value.as_map()) {
  shared_.cluster = scenario.cluster;
  shared_.nodes = read_nodes(map_);
  scenario.cluster = part_of(shared_.cluster, shared_.nodes);
}

std::vector<NodeId> JobsSection::read_nodes(Map& map) {
  const Value list = map.require("nodes");
  const auto last = static_cast<std::int64_t>(shared_.cluster.node_count()) - 1;
  std::vector<NodeId> nodes;
  for (const Value& value : list.as_list()) {
    const NodeId node(static_cast<std::size_t>(value.as_integer(0, last)));
    if (!taken_.insert(node).second)
      value.fail(fmt::format("node {} is listed twice", node.index()),
                 "every job has nodes of its own");
    nodes.push_back(node);
  }
  if (part_of(shared_.cluster, nodes).gpu_count() == 0)
    list.fail("a job without a GPU trains nothing");
  return nodes;
}

OtherJob JobsSection::read_other(const Value& value, const Scenario& scenario,
                                 const CostChoice& choice, const Value& strategy,
                                 const Framework& framework, ProfileLibrary& library) {
  Map map = value.as_map();
  OtherJob other{scenario, read_nodes(map)};
  Scenario& job = other.scenario;
  job.cluster = part_of(shared_.cluster, other.nodes);
  job.run.stragglers.clear();
  CostChoice own_choice = choice;
  const std::optional<Value> own_strategy = map.optional("strategy");
  Framework own_framework = !map.has("framework") && framework.choice().said
                                ? framework
                                : read_framework(map, own_strategy.value_or(strategy));
  own_framework.check(map);
  if (const auto model = map.optional("model")) {
    own_choice = read_model_section(*model, own_framework, job, library);
    job.whole_step = own_choice.whole_step;
    if (job.whole_step) settle_whole_step(job);
    job.given_at = own_choice.given_at;
  }
  if (own_strategy || map.has("framework"))
    job.strategy = read_strategy(own_strategy.value_or(strategy), own_framework);
  check_strategy_section(own_strategy.value_or(strategy), own_choice, job);
  job.optimizer.of = job.precision;
  if (const auto optimizer = map.optional("optimizer"))
    job.optimizer = read_optimizer_section(*optimizer, own_framework, job.precision);
  apply_clipping(own_framework, job);
  apply_grad_scaler(job);
  job.framework = own_framework.choice();
  map.finish();
  const auto* server = server_in(job.strategy);
  if (server != nullptr && server->sampled_workers > 0)
    value.fail("another job whose workers are sampled is not simulated", "without sampled_workers");
  job.cost_sources = find_cost_sources(job, own_choice, library);
  return other;
}

void JobsSection::read_others(Scenario& scenario, const CostChoice& choice, const Value& strategy,
                              const Framework& framework, ProfileLibrary& library) {
  const std::optional<Value> others = map_.optional("others");
  if (others) {
    for (const Value& value : others->as_list())
      shared_.others.push_back(read_other(value, scenario, choice, strategy, framework, library));
  }
  map_.finish();
  scenario.shared = std::make_shared<const SharedCluster>(std::move(shared_));
}

}  // namespace rehearse::inline scenario
