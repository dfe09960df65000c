#include "cli/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "engine/engine.hpp"

namespace rehearse {
namespace {

/// Ranks from which `auto` folds.
constexpr std::size_t kFoldAbove = 64;

std::optional<CommProfile> load_comm_profile(const Cluster& cluster) {
  if (cluster.comm_profile.empty()) return std::nullopt;
  return read_comm_profile(Document::load(cluster.comm_profile)->root());
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

/// Provenance and assumptions of the compute costs of every kind of GPU.
void add_cost_facts(const Scenario& scenario, std::vector<std::string>& provenance,
                    std::vector<std::string>& assumptions) {
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus == 0) continue;
    const StepCosts costs =
        step_costs(scenario.model, group.node.gpu, scenario.precision, scenario.batch_per_gpu,
                   scenario.optimizer, scenario.run.efficiency);
    add_once(provenance, to_string(costs.provenance));
    for (const std::string& assumption : costs.assumptions) add_once(assumptions, assumption);
  }
}

/// Why collectives of the schedule lie outside what the profile measured.
std::vector<std::string> outside(const Schedule& schedule, const CommProfile& profile) {
  std::vector<std::string> reasons;
  std::set<std::size_t> seen;
  for (const RankSpec& rank : schedule.ranks) {
    if (!seen.insert(rank.program.index()).second) continue;
    for (const Op& op : schedule.programs[rank.program.index()].ops) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (collective == nullptr) continue;
      const Group& group = schedule.groups[rank.groups[collective->group].index()];
      if (group.ranks < 2) continue;
      const auto cost = profile.cost(collective->kind, collective->size,
                                     static_cast<int>(group.ranks), static_cast<int>(group.nodes));
      if (!cost) {
        add_once(reasons,
                 fmt::format("{} on {} ranks of {} nodes: no curve in {}, links alone",
                             to_string(collective->kind), group.ranks, group.nodes, profile.name));
      } else if (!cost->outside.empty()) {
        add_once(reasons, fmt::format("{}: {}", to_string(collective->kind), cost->outside));
      }
    }
  }
  return reasons;
}

/// Times and sizes that are given hold for the batch that they were given for.
bool batch_may_vary(const Model& model) {
  return std::none_of(model.units.begin(), model.units.end(), [](const Unit& unit) {
    return unit.forward || unit.backward || unit.activation;
  });
}

RunFacts gather_facts(const Scenario& scenario, const RunPlan& plan, const Trace& trace,
                      const std::optional<CommProfile>& profile) {
  RunFacts facts{.scenario = scenario,
                 .schedule = plan.schedule,
                 .trace = trace,
                 .fidelity = plan.fidelity_name,
                 .provenance = "",
                 .assumptions = scenario.assumptions,
                 .outside_calibration = {},
                 .schedule_at_batch = {},
                 .versions = {{"simgrid", simgrid_version()}}};
  if (batch_may_vary(scenario.model)) {
    facts.schedule_at_batch = [scenario](std::int64_t batch) {
      Scenario other = scenario;
      other.batch_per_gpu = batch;
      return make_schedule(other);
    };
  }
  std::vector<std::string> compute;
  add_cost_facts(scenario, compute, facts.assumptions);
  facts.provenance =
      fmt::format("compute: {}; communication: {}", fmt::join(compute, ", "),
                  profile ? fmt::format("measured ({})", profile->name) : std::string("links"));
  if (profile) facts.outside_calibration = outside(plan.schedule, *profile);
  for (const std::string& setting : simgrid_settings()) {
    facts.assumptions.push_back("SimGrid " + setting);
  }
  return facts;
}

}  // namespace

RunPlan plan_simulation(const Scenario& scenario) {
  RunPlan plan{
      .schedule = make_schedule(scenario), .cluster = scenario.cluster, .fidelity_name = ""};
  validate(plan.schedule);
  const FidelityChoice choice = scenario.run.fidelity;
  const std::size_t ranks = plan.schedule.ranks.size();
  plan.fidelity = choice == FidelityChoice::hop ? Fidelity::hop : Fidelity::flow;
  plan.fidelity_name = choice == FidelityChoice::hop ? "hop" : "flow";
  const bool asked = choice == FidelityChoice::folded;
  if (!asked && !(choice == FidelityChoice::automatic && ranks > kFoldAbove)) return plan;

  std::string why_not;
  std::optional<Folded> folded = fold(plan.schedule, plan.cluster, why_not);
  if (folded) {
    plan.fidelity_name =
        fmt::format("folded ({} of {} ranks simulated)", folded->schedule.ranks.size(), ranks);
    plan.schedule = std::move(folded->schedule);
    plan.cluster = std::move(folded->cluster);
  } else if (asked) {
    throw InputError(
        fmt::format("{}: error: run.fidelity: cannot fold: {}\nremedy: use fidelity: flow",
                    scenario.file, why_not));
  }
  return plan;
}

Prediction simulate(const Scenario& scenario, void (*progress)(double share)) {
  Prediction result{.plan = plan_simulation(scenario), .trace = {}, .report = {}};
  const std::optional<CommProfile> profile = load_comm_profile(result.plan.cluster);
  EngineOptions options;
  options.fidelity = result.plan.fidelity;
  options.comm = profile ? &*profile : nullptr;
  options.progress = progress;
  result.trace = run(result.plan.schedule, result.plan.cluster, options);
  result.report = summarize(gather_facts(scenario, result.plan, result.trace, profile));
  return result;
}

}  // namespace rehearse
