#include "validation/played.hpp"

#include <algorithm>

#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/update_log.hpp"
#include "validation/runs_file.hpp"
#include "view/views.hpp"

namespace rehearse::inline validation {
namespace {

/// Recorded runs of a set that a scoreboard of all plays.
constexpr std::size_t kMostOfASet = 4;

/// A curve counts the staleness of all updates, a report that while all workers train; the interval
/// moves with its mean.
void count_all_updates(Prediction& prediction) {
  Report& report = prediction.report;
  if (!report.staleness) return;
  const double before = report.staleness->mean;
  report.staleness = staleness_of(update_log(prediction.machine.schedule, prediction.trace), 0);
  for (KeyBounds& one : report.intervals) {
    if (one.key != kStalenessMean) continue;
    one.bounds.low = std::max(0.0, one.bounds.low + report.staleness->mean - before);
    one.bounds.high += report.staleness->mean - before;
  }
}

}  // namespace

std::vector<CaseFile> read_cases(const std::vector<std::filesystem::path>& sets,
                                 const std::vector<std::string>& metrics,
                                 const std::vector<std::string>& names) {
  const CaseChoice choice =
      sets.empty() ? CaseChoice{.recorded = kMostOfASet, .takes_long = false} : CaseChoice{};
  std::vector<CaseFile> cases;
  for (const auto& file : sets.empty() ? shipped_case_files() : case_files(sets))
    cases.push_back(is_runs_file(file) ? read_runs_file(file) : read_case_file(file, choice));
  return only_metrics(only_cases(std::move(cases), names), metrics);
}

std::string simulated_report(const ValidationCase& one) {
  const Options options{.find_largest_batch = false};
  Scenario scenario = read_question(one.scenario, one.overrides);
  if (one.recorded_at) scenario.run.until = RunUntil::steps;  // the real run ended after as many
  if (!one.learned) return to_json(predict(scenario, options).report);
  Prediction prediction = predict(asking_for_accuracy(scenario, *one.learned), options);
  count_all_updates(prediction);
  return to_json(prediction.report);
}

Validation play(std::vector<CaseFile> cases, const PlayOptions& options) {
  return compare(std::move(cases), simulated_report, options.jobs, options.progress);
}

}  // namespace rehearse::inline validation
