#include "report/paced_updates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>

#include "base/error.hpp"
#include "strategy/server_host.hpp"

namespace rehearse::inline report {
namespace {

/// A parameter server that waits for nobody applies each worker's gradient on its own.
bool applies_one_by_one(const Strategy& strategy) {
  const auto* server = server_in(strategy);
  return server != nullptr && server->staleness != 0U;
}

/// GPUs behind an update that is applied on its own: one, or those of a node in the mean.
double gpus_per_worker(const Scenario& scenario) {
  if (server_in(scenario.strategy) == nullptr) return 1;
  return static_cast<double>(scenario.cluster.gpu_count()) /
         static_cast<double>(worker_count(scenario.strategy, scenario.cluster));
}

}  // namespace

PacedUpdates paced_updates(const Basis& basis, const Report& report, bool whole_run) {
  PacedUpdates paced;
  paced.pace.samples_per_s = report.samples_per_s;
  const int local = local_steps(basis.facts.scenario.strategy);
  paced.pace.samples_per_update = static_cast<double>(report.global_batch) / local;
  if (!applies_one_by_one(basis.facts.scenario.strategy)) return paced;
  paced.pace.samples_per_update = static_cast<double>(report.global_batch) *
                                  gpus_per_worker(basis.facts.scenario) /
                                  static_cast<double>(basis.facts.scenario.cluster.gpu_count());
  paced.steps = static_cast<std::uint32_t>(local);
  paced.whole_run = whole_run;
  paced.staleness.clear();
  for (const Update& update : basis.updates) {
    if (whole_run || counts(basis, update)) paced.staleness.push_back(update.staleness);
    if (whole_run) paced.pace.applied.push_back(update.applied);
  }
  if (paced.staleness.empty()) paced.staleness = {0};
  return paced;
}

TrainingSetting setting_of(const PacedUpdates& updates, double learning_rate, double momentum) {
  StalenessHistogram histogram;
  for (const std::uint32_t staleness : updates.staleness) ++histogram[staleness];
  return {.staleness = counted_staleness(histogram),
          .learning_rate = learning_rate * updates.steps,
          .momentum = momentum,
          .samples_per_update = updates.pace.samples_per_update,
          .order = updates.staleness,
          .course = updates.whole_run ? course_of(updates.staleness) : std::vector<CoursePoint>()};
}

std::optional<StrategyForecast> accuracy_of(const Basis& basis, const Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  if (!scenario.convergence) return std::nullopt;
  const Convergence& known = *scenario.convergence;
  const PacedUpdates paced = paced_updates(basis, report, known.whole_run);
  TrainingPlan plan{
      .name = report.strategy,
      .setting = mitigated(setting_of(paced, known.learning_rate, known.momentum), known.mitigation,
                           static_cast<std::uint32_t>(static_cast<double>(report.ranks) /
                                                      gpus_per_worker(scenario))),
      .pace = paced.pace};
  ForecastQuestion question{.at = {}, .samples = {}, .accuracy = known.target};
  question.samples = training_samples(scenario, basis.facts.schedule.samples_per_iteration);
  question.course.rates = known.rates;
  if (const ParameterServer* const server = server_in(scenario.strategy))
    question.course.synchronous_first = server->switch_share;
  if (basis.facts.synchronous_rate && question.samples && plan.pace) {
    plan.pace->applied.clear();
    plan.pace->first_samples = question.course.synchronous_first * *question.samples;
    plan.pace->first_samples_per_s = *basis.facts.synchronous_rate;
  }
  StrategyForecast told = forecast_strategy(*known.model, plan, question);
  if (local_steps(scenario.strategy) > 1)
    told.outside_calibration.push_back(
        {"local steps", "local steps: what workers drift apart is not modelled"});
  return told;
}

}  // namespace rehearse::inline report
