#include "cli/error_sources.hpp"

#include <algorithm>
#include <cmath>
namespace rehearse {
namespace {

enum class Source { compute, communication };

/// The second is the first that is like all others.
constexpr std::uint32_t kShiftedSteps = 2;

/// What autograd keeps is counted from the architecture, as PyTorch's kernels save it; versions
/// differ. A guess until it is measured.
constexpr double kComputedActivations = 0.1;

/// Which of the cluster's groups a rank's node belongs to.
std::size_t group_index(const Cluster& cluster, NodeId node) {
  return static_cast<std::size_t>(&cluster.group_of(node) - cluster.groups.data());
}

/// Compute on the GPUs and the launches that feed it; servers apply at rates that are given.
bool is_costed(const Op& op) {
  return op.phase != Phase::server && op.phase != Phase::communication &&
         std::holds_alternative<Compute>(op.work);
}

/// Half-widths of the programs' compute: like ranks of a program have like GPUs.
std::vector<double> compute_errors(const RunPlan& plan, const std::vector<StepCosts>& costs) {
  std::vector<double> errors(plan.schedule.programs.size(), 0.0);
  for (const RankSpec& rank : plan.schedule.ranks) {
    double& error = errors[rank.program.index()];
    error = std::max(error, costs.at(group_index(plan.cluster, rank.place.node)).uncertainty);
  }
  return errors;
}

void shift_compute(Schedule& schedule, const std::vector<double>& errors, double shift) {
  for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
    for (Op& op : schedule.programs[p].ops) {
      if (is_costed(op)) std::get<Compute>(op.work).duration *= std::exp(shift * errors[p]);
    }
  }
}

/// Every transfer over the links takes `factor` times as long.
void slow_links(Cluster& cluster, double factor) {
  const auto slow = [factor](auto& link) {
    link.bandwidth *= 1 / factor;
    link.latency *= factor;
  };
  for (NodeGroup& group : cluster.groups) {
    Node& node = group.node;
    if (node.nvlink) slow(*node.nvlink);
    slow(node.pcie);
    node.pcie.host_bandwidth *= 1 / factor;
    node.nic_bandwidth *= 1 / factor;
    node.nic_latency *= factor;
  }
  std::visit(
      [&](auto& fabric) {
        if constexpr (requires { fabric.bandwidth; }) slow(fabric);
      },
      cluster.fabric);
}

bool has_updates(const Schedule& schedule) {
  return std::ranges::any_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops,
                               [](const Op& op) { return op.role != UpdateRole::none; });
  });
}

/// The schedule with as many iterations as its shifted runs have.
Schedule shortened(const Schedule& schedule) {
  Schedule short_one = schedule;
  const bool alike = schedule.jitter.distribution == Jitter::Distribution::none;
  if (alike && !has_updates(schedule))
    short_one.iterations = std::min(schedule.iterations, kShiftedSteps);
  return short_one;
}

/// In this process, which can simulate no more then.
Headline shifted_headline(const Scenario& scenario, const RunPlan& plan, Source source,
                          const std::vector<double>& errors, double shift) {
  Schedule schedule = shortened(plan.schedule);
  Cluster cluster = plan.cluster;
  CommProfile comm = scenario.comm ? *scenario.comm : CommProfile{};
  if (source == Source::compute) {
    shift_compute(schedule, errors, shift);
  } else if (comm.transport) {  // between nodes the links' rates are known
    comm.transport = comm.transport->shifted(shift);
    comm.shift = shift;
  } else {
    slow_links(cluster, std::exp(shift * kLinksError));
    comm.shift = shift;
  }
  return simulated_headline(scenario, schedule, cluster, plan.fidelity,
                            scenario.comm ? &comm : nullptr);
}

}  // namespace

bool communicates(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [&](const RankSpec& rank) {
    const auto& ops = schedule.programs[rank.program.index()].ops;
    return std::ranges::any_of(ops, [&](const Op& op) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (collective) return schedule.groups[rank.groups[collective->group].index()].ranks > 1;
      return std::holds_alternative<Transfer>(op.work);
    });
  });
}

ShiftedRuns::ShiftedRuns(const Scenario& scenario, const RunPlan& plan,
                         const std::vector<StepCosts>& costs)
    : scenario_(scenario), plan_(plan) {
  const std::vector<double> errors = compute_errors(plan, costs);
  const auto add = [&](const char* name, Source source) {
    const auto start = [&](double shift) {
      return HeadlineRun([&scenario, &plan, &errors, source, shift] {
        return shifted_headline(scenario, plan, source, errors, shift);
      });
    };
    pairs_.push_back({name, start(-1), start(1)});
  };
  if (std::ranges::any_of(errors, [](double error) { return error > 0; })) {
    add("compute", Source::compute);
  }
  if (communicates(plan.schedule)) add("communication", Source::communication);
}

std::vector<ErrorSource> ShiftedRuns::error_sources(const Trace& trace) {
  if (pairs_.empty()) return {};
  const Headline best = headline_of(scenario_, shortened(plan_.schedule), trace);
  std::vector<ErrorSource> sources;
  for (Pair& pair : pairs_) {
    const Headline low = pair.low.result();
    sources.push_back({pair.name, low, best, pair.high.result()});
  }
  return sources;
}

ModelError model_error(const Scenario& scenario, const Schedule& schedule) {
  const bool sockets = scenario.comm && scenario.comm->transport && communicates(schedule);
  return sockets ? ModelError{.step = 0.08, .staleness = 0.045} : ModelError{};
}

double activation_error(const std::vector<StepCosts>& costs) {
  const bool computed = std::ranges::any_of(costs, [](const StepCosts& one) {
    return !one.units.empty() && one.provenance == Provenance::analytic;
  });
  return computed ? kComputedActivations : 0;
}

}  // namespace rehearse
