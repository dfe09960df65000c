#include <fmt/format.h>

#include <algorithm>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "base/progress_line.hpp"
#include "cli/commands.hpp"
#include "html/html.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/views.hpp"
#include "validation/views.hpp"

namespace rehearse {
namespace {

/// Cases of a set that the overview plays.
constexpr std::size_t kMostOfASet = 9;

/// Of all shipped sets at once the best estimates alone, and of a set of thousands a sample.
bool is_overview(const ValidateCommand& command) { return command.files.empty(); }

std::vector<CaseFile> read_cases(const ValidateCommand& command) {
  const std::vector<std::filesystem::path> files =
      is_overview(command) ? shipped_case_files() : case_files(command.files);
  std::vector<CaseFile> cases;
  cases.reserve(files.size());
  for (const std::filesystem::path& file : files) cases.push_back(read_case_file(file));
  cases = only_metrics(std::move(cases), command.metrics);
  return is_overview(command) ? sampled(std::move(cases), kMostOfASet) : cases;
}

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

std::string simulated_report(const ValidationCase& one, const Options& options) {
  Scenario scenario = read_question(one.scenario, one.overrides);
  if (one.recorded_at) scenario.run.until = RunUntil::steps;  // the real run ended after as many
  if (!one.learned) return to_json(predict(scenario, options).report);
  Prediction prediction = predict(asking_for_accuracy(scenario, *one.learned), options);
  count_all_updates(prediction);
  return to_json(prediction.report);
}

std::string render(const Validation& validation, const ValidateCommand& command) {
  if (command.format == "json") return to_json(validation);
  if (command.format == "csv") return to_csv(validation);
  if (command.format == "markdown") return to_markdown(validation);
  const bool color =
      command.output.empty() ? use_color(command.color) : command.color == ColorChoice::always;
  return is_overview(command) ? to_overview(validation, color) : to_table(validation, color);
}

}  // namespace

void validate_command(const ValidateCommand& command) {
  if (command.live) {
    throw InputError(
        "rehearse: error: --live measures with the calibrator, which this program is not\n"
        "remedy: run ./rehearse validate --live as root, from the sources");
  }
  std::vector<CaseFile> cases = read_cases(command);
  check_outputs({{"--output", command.output}, {"--html", command.html}});
  const Options options{.find_largest_batch = false, .intervals = !is_overview(command)};
  const auto played = [&] {
    ProgressLine line(command.quiet);
    return compare(
        std::move(cases), [&](const ValidationCase& one) { return simulated_report(one, options); },
        jobs_or_cores(command.jobs),
        [&](std::size_t done, std::size_t all) {
          line.show(fmt::format("case {} of {}", done, all));
        });
  };
  const Validation validation = played();
  if (!command.html.empty()) write_file(command.html, to_html(to_json(validation)));
  write_result(command.output, render(validation, command));
  throw_failures(validation);
  if (const auto lines = beyond(validation, command.bounds); !lines.empty()) {
    throw Error(ExitCode::refuted,
                fmt::format("rehearse: predictions are beyond a bound:\n{}\nremedy: the table has "
                            "every error; --help tells the bounds",
                            fmt::join(lines, "\n")));
  }
}

}  // namespace rehearse
