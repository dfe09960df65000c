#include "planner/scenario_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "cluster/scale.hpp"
#include "economy/price.hpp"
#include "planner/layouts/layout_bound.hpp"
#include "planner/layouts/layout_simulator.hpp"
#include "predict/intervals/error_sources.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/basis.hpp"
#include "report/measures.hpp"
#include "schedule/jitter.hpp"
#include "study/content_key.hpp"
#include "study/simulator.hpp"
#include "view/views.hpp"

namespace rehearse::inline planner {
namespace {

/// An interval's half-width over that of its costs, and what few steps of which one stops add to it
/// in ln, at most.
constexpr double kWiderThanCosts = 1.5, kFewSteps = 2;

/// The compute of a program's busiest lane in one iteration, at a slowdown of 1.
Seconds busiest_lane(const Program& program) {
  std::vector<Seconds> busy(program.lanes.size());
  for (const Op& op : program.ops) {
    const auto* compute = std::get_if<Compute>(&op.work);
    if (compute != nullptr && op.lane) busy[op.lane->index()] += compute->duration;
  }
  return busy.empty() ? Seconds(0) : *std::ranges::max_element(busy);
}

/// Of the rank that computes longest.
Seconds shortest_step(const Schedule& schedule) {
  std::vector<Seconds> lanes;
  for (const Program& program : schedule.programs) lanes.push_back(busiest_lane(program));
  Seconds longest;
  for (const RankSpec& rank : schedule.ranks) {
    longest = std::max(longest, lanes[rank.program.index()] * rank.slowdown);
  }
  return longest;
}

/// ln of the most that a rank takes longer than the typical GPU of its kind.
double slowest_rank(const Schedule& schedule) {
  double most = 1;
  for (const RankSpec& rank : schedule.ranks) most = std::max(most, rank.slowdown);
  return std::log(most);
}

/// How far below an estimate its interval's end may lie, as a factor.
double least_end(const Scenario& scenario, const Machine& machine) {
  double compute = 0;
  for (const StepCosts& costs : group_costs(scenario)) {
    compute = std::max(compute, costs.uncertainty);
  }
  const double fleet = scenario.run.usual_spread ? slowest_rank(machine.schedule) : 0;
  const double most = std::hypot(compute, model_error(scenario, machine.schedule).step, fleet);
  return std::exp(-kWiderThanCosts * most - (machine.schedule.interruptions.any() ? kFewSteps : 0));
}

/// What no simulated step is below, of the slowest rank's compute: jitter of at most 1 %, of which
/// ten standard deviations on the rank itself and as many on what others were late by, is not met.
double least_jitter(const Jitter& jitter) { return std::exp(-20 * jitter.cv); }

std::optional<double> usd_per_hour(const Scenario& scenario) {
  return usd_per_hour(scenario.cluster, scenario.train.market);
}

/// What the money of a training is in proportion to; 0: to no price of one kind of node.
double node_price(const Scenario& scenario) {
  const bool bought_power = scenario.energy && scenario.energy->usd_per_kwh;
  if (scenario.cluster.groups.size() != 1 || bought_power) return 0;
  return usd_per_hour(scenario.cluster.groups.front().node, scenario.train.market).value_or(0);
}

/// Whose global batch is known.
std::optional<double> samples_of(const Scenario& scenario, const Bound& bound) {
  return training_samples(scenario, bound.best.at(Metric::global_batch).value);
}

void add_unknown(const Scenario& scenario, Bound& bound) {
  const bool trains = samples_of(scenario, bound).has_value();
  const char* const endless =
      "the scenario lacks train.steps, train.tokens or train.samples_per_epoch with train.epochs";
  if (!trains) {
    for (const Metric metric : {Metric::train_time, Metric::usd, Metric::energy, Metric::co2}) {
      bound.unknown[metric] = endless;
    }
  } else if (!usd_per_hour(scenario)) {
    bound.unknown[Metric::usd] =
        fmt::format("{} has no price, which usd_per_hour or --price says",
                    scenario.cluster.name == "inline" ? "the cluster" : scenario.cluster.name);
  }
  if (trains && !scenario.energy) {
    for (const Metric metric : {Metric::energy, Metric::co2})
      bound.unknown[metric] = "the scenario has no energy";
  } else if (trains && !scenario.energy->grid_gco2_per_kwh) {
    bound.unknown[Metric::co2] = "the scenario has no energy.grid_gco2_per_kwh";
  }
  if (!scenario.convergence) bound.unknown[Metric::accuracy] = "the scenario has no convergence";
}

/// Those of a step that takes at least so long, and at least `end` of it at its interval's end.
void add_times(const Scenario& scenario, Seconds step, double end, Bound& bound) {
  const auto put = [&](Metric metric, double value, double factor) {
    bound.best[metric] = {value, value * factor, value * factor};
  };
  const double rate = bound.best.at(Metric::global_batch).value / step.value();
  put(Metric::step_time, step.value(), end);
  put(Metric::samples_per_s, rate, 1 / end);
  const std::optional<double> samples = samples_of(scenario, bound);
  if (!samples) return;
  put(Metric::train_time, *samples / rate, end);
  if (const auto price = usd_per_hour(scenario)) {
    put(Metric::usd, *samples / rate / 3600 * *price, end);
  }
}

void add_times(const Scenario& scenario, const Machine& machine, Bound& bound) {
  const bool steady =
      steps_alike(machine.schedule.jitter) && server_in(scenario.strategy) == nullptr;
  const Seconds step = shortest_step(machine.schedule) * least_jitter(machine.schedule.jitter);
  if (!steady || step <= Seconds(0)) return;
  add_times(scenario, step, least_end(scenario, machine), bound);
}

void add_memory(const Scenario& scenario, const Machine& machine, Bound& bound) {
  const Trace nothing;
  const auto memory = memory_report({.scenario = scenario,
                                     .schedule = machine.schedule,
                                     .trace = nothing,
                                     .fidelity = "",
                                     .provenance = "",
                                     .assumptions = {},
                                     .outside_calibration = {}});
  if (!memory) return;
  const double used = memory->used().value();
  bound.best[Metric::memory] = {used, used, used};
  bound.capacity = memory->capacity.value();
  bound.in_pieces = !memory->fits && memory->used() <= memory->capacity;
}

void add_figures(const Scenario& scenario, Bound& bound) {
  const Machine machine = machine_of(scenario);
  const auto exact = [&](Metric metric, double value) {
    bound.best[metric] = {value, value, value};
  };
  exact(Metric::gpus, static_cast<double>(scenario.cluster.gpu_count()));
  exact(Metric::global_batch, machine.schedule.samples_per_iteration);
  bound.machine = scenario.cluster.name;
  bound.node_price = node_price(scenario);
  bound.prices = price_words(scenario.cluster, scenario.train.market);
  add_memory(scenario, machine, bound);
  add_times(scenario, machine, bound);
  add_unknown(scenario, bound);
}

void add_layout_figures(const Scenario& scenario, Bound& bound) {
  const auto exact = [&](Metric metric, double value) {
    bound.best[metric] = {value, value, value};
  };
  if (!is_one_layout(scenario.strategy))
    return add_figures(scenario, bound);  // degrees of 1 are as none
  const Layout& layout = *scenario.strategy.layout;
  const std::size_t gpus = scenario.cluster.gpu_count();
  const double replicas = mesh_on(layout, gpus)->data;
  exact(Metric::gpus, static_cast<double>(gpus));
  exact(Metric::global_batch,
        replicas * layout.micro_batches * static_cast<double>(scenario.batch_per_gpu));
  bound.machine = scenario.cluster.name;
  bound.node_price = node_price(scenario);
  bound.prices = price_words(scenario.cluster, scenario.train.market);
  add_unknown(scenario, bound);
  const std::optional<LayoutBound> least = layout_bound(scenario);
  if (!least) return;
  exact(Metric::memory, least->memory.value());
  bound.memory_at_least = true;
  bound.capacity = scenario.cluster.groups.front().node.gpu.memory.value();
  const Jitter& jitter = scenario.run.jitter;
  if (steps_alike(jitter) && least->step > Seconds(0))
    add_times(scenario, least->step * least_jitter(jitter), 1 / kNear, bound);
}

/// Between nodes: the NICs and the fabric. What a node holds inside stays.
void change_machine(Cluster& cluster, const WhatIf& change) {
  scale_bandwidth(LinkPart::nic, change.network, cluster);
  scale_bandwidth(LinkPart::fabric, change.network, cluster);
  for (NodeGroup& group : cluster.groups) group.node.speed *= change.compute;
}

}  // namespace

void change_machine(Scenario& scenario, const WhatIf& machine) {
  change_machine(scenario.cluster, machine);
  if (!scenario.shared) return;
  SharedCluster shared = *scenario.shared;
  change_machine(shared.cluster, machine);
  for (OtherJob& other : shared.others) change_machine(other.scenario.cluster, machine);
  scenario.shared = std::make_shared<const SharedCluster>(std::move(shared));
}

namespace {

/// As quick_simulator() predicts, on another machine.
std::string predict_if(const Document& document, const WhatIf& machine) {
  Scenario scenario = read_question(document);
  change_machine(scenario, machine);
  return to_json(predict(scenario, {.find_largest_batch = false}).report);
}

/// `add` says what is known of it.
Bound bound_by(const Document& document, const std::string& program,
               void (*add)(const Scenario&, Bound&)) {
  FilesRead files;
  Bound bound;
  try {
    const Scenario scenario = read_question(document);
    bound.key = content_key(program, document, files.files());
    add(scenario, bound);
  } catch (const Error& error) {
    bound.code = error.code();
    bound.error = error.what();
    if (bound.key.empty()) bound.key = content_key(program + "\n" + bound.error);
  }
  return bound;
}

}  // namespace

Bound bound_of(const Document& document, const std::string& program) {
  return bound_by(document, program, add_figures);
}

Bound layout_bound_of(const Document& document, const std::string& program) {
  return bound_by(document, program, add_layout_figures);
}

PlanSimulator plan_simulator() {
  PlanSimulator all{.simulator = quick_simulator(), .bound = {}, .predict_if = predict_if};
  all.bound = [program = all.simulator.program](const Document& scenario) {
    return bound_of(scenario, program);
  };
  return all;
}

}  // namespace rehearse::inline planner
