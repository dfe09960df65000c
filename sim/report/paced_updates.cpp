#include "report/paced_updates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>

#include "base/error.hpp"
#include "report/update_log.hpp"
#include "strategy/server/server_host.hpp"

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

/// What forecasts do not model: workers that drift apart, and updates of another kind at the start.
std::vector<Doubt> left_out_of(const Strategy& strategy, bool has_all_steps) {
  std::vector<Doubt> doubts;
  if (const int steps = local_steps(strategy); steps > 1)
    doubts.push_back(
        {"local steps", fmt::format("local steps: what workers drift apart in {} of them is not "
                                    "modelled",
                                    steps)});
  if (strategy.local_sgd && strategy.local_sgd->outer)
    doubts.push_back({"outer optimizer", "outer optimizer: what it changes is not modelled"});
  const auto* server = server_in(strategy);
  if (server != nullptr && server->warmup_rounds > 0 && !has_all_steps)
    doubts.push_back({"warm-up", fmt::format("warm-up: its {} synchronous rounds are left out; all "
                                             "updates count as those after it",
                                             server->warmup_rounds)});
  return doubts;
}

}  // namespace

PacedUpdates paced_updates(const Basis& basis, const Report& report, bool whole_run) {
  PacedUpdates paced;
  paced.left_out = left_out_of(basis.facts.scenario.strategy,
                               whole_run || basis.facts.scenario.run.until == RunUntil::steps);
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
      .pace = paced.pace,
      .left_out = paced.left_out};
  ForecastQuestion question{.at = {}, .samples = {}, .accuracy = known.target};
  question.samples = training_samples(scenario, basis.facts.schedule.samples_per_iteration);
  for (const UnlikeTraining& one : known.curves.differences)
    plan.left_out.push_back({one.kind, one.words});
  question.course.rates = known.rates;
  if (const ParameterServer* const server = server_in(scenario.strategy))
    question.course.synchronous_first = server->switch_share;
  if (basis.facts.synchronous_rate && question.samples && plan.pace) {
    plan.pace->applied.clear();
    plan.pace->first_samples = question.course.synchronous_first * *question.samples;
    plan.pace->first_samples_per_s = *basis.facts.synchronous_rate;
  }
  return forecast_strategy(*known.model, plan, question);
}

}  // namespace rehearse::inline report
