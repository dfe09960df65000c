#include "predict/measured_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "predict/headline_run.hpp"

namespace rehearse::inline prediction {
namespace {

/// Trials end when the simulated rate is that near to the measured one.
constexpr double kSolved = 1e-5;
constexpr int kMostTrials = 40;

[[noreturn]] void refuse(const Scenario& scenario, const std::string& why,
                         const std::string& remedy) {
  throw InputError(
      fmt::format("{}: error: model.measured: {}\nremedy: {}", scenario.file, why, remedy));
}

/// Of a cluster with one group of GPUs, as many nodes as have the measured GPUs.
void keep_measured_nodes(Scenario& scenario) {
  const std::int64_t gpus = scenario.whole_step->gpus;
  if (gpus == static_cast<std::int64_t>(scenario.cluster.gpu_count())) return;
  std::vector<NodeGroup*> groups;
  for (NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus > 0) groups.push_back(&group);
  }
  NodeGroup* const trained = groups.size() == 1 ? groups.front() : nullptr;
  const int node = trained == nullptr ? 0 : trained->node.gpus;
  const bool star = std::holds_alternative<Star>(scenario.cluster.fabric);
  if (!star || node == 0 || gpus > static_cast<std::int64_t>(scenario.cluster.gpu_count()) ||
      (gpus >= node && gpus % node != 0)) {
    refuse(scenario,
           fmt::format("{} GPUs are no whole nodes of this cluster of {}", gpus,
                       scenario.cluster.gpu_count()),
           fmt::format("give the figure of one GPU, or of a number of nodes with {} GPUs each",
                       std::max(1, node)));
  }
  trained->nodes = std::max<int>(1, static_cast<int>(gpus / node));
  trained->node.gpus = static_cast<int>(std::min<std::int64_t>(gpus, node));
  trained->node.nics = std::min(trained->node.nics, trained->node.gpus);
}

/// The job that was measured, without what belongs to the asked one.
Scenario measured_job(const Scenario& scenario) {
  Scenario job = scenario;
  keep_measured_nodes(job);
  job.batch_per_gpu = scenario.whole_step->batch;
  job.run.stragglers.clear();
  job.run.replications = {};
  job.shared = nullptr;
  return job;
}

double simulated_rate(const Scenario& job, double alone) {
  Scenario trial = job;
  trial.whole_step->samples_per_s = alone;
  trial.whole_step->gpus = 1;
  HeadlineRun run([&trial] { return simulated_headline(trial, machine_of(trial)); });
  return run.result().samples_per_s;
}

/// One GPU's own rate. Communication hides behind compute or it does not, so that the job's rate
/// grows with one GPU's, at most in proportion: steps in proportion go up to the solution.
double solve(const Scenario& scenario) {
  const Scenario job = measured_job(scenario);
  const double measured = scenario.whole_step->samples_per_s;
  const double least = measured / static_cast<double>(scenario.whole_step->gpus);
  double alone = least;
  for (int trial = 0; trial < kMostTrials; ++trial) {
    const double rate = simulated_rate(job, alone);
    if (std::abs(rate / measured - 1) < kSolved) return alone;
    alone *= measured / rate;
    const auto asked =
        asked_of_peak({.samples_per_s = alone}, scenario.model, job.cluster.groups.front().node.gpu,
                      scenario.precision, scenario.checkpointed);
    if (asked && asked->asked > asked->peak) {
      refuse(scenario,
             fmt::format("with this strategy and these links {} GPUs reach {:.6g} samples/s only "
                         "if one computes at more than its peak of {}",
                         scenario.whole_step->gpus, measured, format(asked->peak)),
             "check strategy, links and gradient accumulation, or the figure");
    }
  }
  return alone;
}

}  // namespace

Scenario solved(Scenario scenario) {
  if (!scenario.whole_step || scenario.whole_step->gpus == 1) return scenario;
  const double alone = solve(scenario);
  WholeStep& step = *scenario.whole_step;
  scenario.assumptions.push_back(
      fmt::format("model.measured: {:.6g} samples/s of {} GPUs, solved for one alone: {:.6g}",
                  step.samples_per_s, step.gpus, alone));
  step.samples_per_s = alone;
  step.gpus = 1;
  return scenario;
}

Scenario read_question(const Document& document) { return solved(read_scenario(document)); }

Scenario read_question(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides) {
  return solved(read_scenario(file, overrides));
}

}  // namespace rehearse::inline prediction
