// These are taken of machines where neither a scenario nor a measurement says anything.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenario/sections.hpp"
#include "scenario/speed_spread.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse::inline scenario {
namespace {

/// GPUs that are trained on side by side. Not those of no real kind, and no cores of a CPU: what
/// these differ by is measured with them.
bool is_fleet(const Scenario& scenario) {
  const Cluster& cluster = scenario.cluster;
  const bool on_sockets = scenario.comm && scenario.comm->transport;
  return cluster.gpu_count() > 1 && !cluster.shared_cores && !on_sockets &&
         device_of(scenario) == TapeDevice::cuda &&
         std::ranges::all_of(cluster.groups, [](const NodeGroup& group) {
           return group.node.gpus == 0 || group.node.gpu.name != "generic";
         });
}

}  // namespace

void take_usual_fleet(Scenario& scenario) {
  RunOptions& run = scenario.run;
  const bool fleet = is_fleet(scenario);
  if (run.usual_spread && fleet) {
    run.speed_spread = kUsualFleet.speed_spread;
    scenario.assumptions.push_back(fmt::format("run.speed_spread = {:g}", run.speed_spread));
  }
  if (run.usual_jitter && fleet) {
    run.jitter = {.distribution = Jitter::Distribution::lognormal, .cv = kUsualFleet.jitter};
    scenario.assumptions.push_back(
        fmt::format("run.jitter = {{lognormal: {{cv: {:g}}}}}", run.jitter.cv));
  } else if (run.usual_jitter) {
    scenario.assumptions.emplace_back("run.jitter = none");
  }
  const auto is_stops = [](const FrameworkSetting& one) { return one.key == "run.stops"; };
  if (!fleet && std::erase_if(scenario.framework.set, is_stops) > 0) run.interruptions = {};
  run.usual_interruptions = run.usual_interruptions && fleet;
  run.usual_spread = run.usual_spread && fleet;
  run.usual_jitter = run.usual_jitter && fleet;
}

void take_usual_messages(Scenario& scenario) {
  ParameterServer* const server = server_in(scenario.strategy);
  if (server == nullptr) return;
  if (!(scenario.comm && scenario.comm->transport)) take_usual_messages(*server, scenario.cluster);
  // Said to be none: they are not played at all.
  for (auto* rate : {&server->worker_cpu_rate, &server->server_cpu_rate})
    if (*rate && !std::isfinite((*rate)->value())) rate->reset();
}

}  // namespace rehearse::inline scenario
