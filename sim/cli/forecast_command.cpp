#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "cli/commands.hpp"
#include "convergence/curve.hpp"
#include "convergence/fitted_curves.hpp"
#include "html/html.hpp"
#include "predict/paced_plans.hpp"
#include "report/forecast_views.hpp"

namespace rehearse {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& remedy) {
  throw InputError(fmt::format("rehearse: error: {}\nremedy: {}", message, remedy));
}

// --- the staleness that is given -----------------------------------------------------------------

[[noreturn]] void refuse_staleness(const std::string& text) {
  refuse(fmt::format("--staleness: expected a mean or counts by staleness; got \"{}\"", text),
         "--staleness 3.5 or --staleness 0:10,1:20,7:3");
}

double staleness_number(const std::string& text, const std::string& whole) {
  constexpr double kMost = 10'000;
  const std::optional<double> number = decimal_number(text);
  if (!number || *number < 0 || *number > kMost) refuse_staleness(whole);
  return *number;
}

std::uint32_t whole_number(const std::string& text, const std::string& whole) {
  const double number = staleness_number(text, whole);
  if (number != static_cast<double>(static_cast<std::uint32_t>(number))) refuse_staleness(whole);
  return static_cast<std::uint32_t>(number);
}

Staleness parse_staleness(const std::string& text) {
  if (text.find(':') == std::string::npos)
    return nearly_constant_staleness(staleness_number(text, text));
  std::map<std::uint32_t, std::uint64_t> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const std::size_t colon = entry.find(':');
    if (colon == std::string::npos) refuse_staleness(text);
    const std::uint32_t count = whole_number(entry.substr(colon + 1), text);
    if (count == 0) refuse_staleness(text);
    counts[whole_number(entry.substr(0, colon), text)] += count;
    begin = end + 1;
  }
  return counted_staleness(counts);
}

// --- the question --------------------------------------------------------------------------------

TrainingSetting asked_setting(const ForecastCommand& command, const FittedCurves& fitted) {
  TrainingSetting setting = fitted.usual;
  if (command.learning_rate) setting.learning_rate = *command.learning_rate;
  if (command.momentum) setting.momentum = *command.momentum;
  if (command.samples_per_update) setting.samples_per_update = *command.samples_per_update;
  if (!command.staleness.empty()) setting.staleness = parse_staleness(command.staleness);
  return setting;
}

/// Each plan as it is, and with what may help against its staleness: delay compensation where
/// there is a lambda for it.
std::vector<TrainingPlan> with_mitigations(const std::vector<TrainingPlan>& plans,
                                           const std::optional<double>& lambda) {
  std::vector<TrainingPlan> all;
  for (const TrainingPlan& plan : plans) {
    all.push_back(plan);
    if (plan.setting.staleness.max() == 0) continue;
    const auto workers = static_cast<std::uint32_t>(std::lround(plan.setting.staleness.mean())) + 1;
    const auto add = [&](const char* name, const Mitigation& by) {
      all.push_back({plan.name + ", " + name, mitigated(plan.setting, by, workers), plan.pace});
    };
    Mitigation aware;
    aware.staleness_aware = true;
    add("rate by staleness", aware);
    if (lambda) {
      Mitigation compensated;
      compensated.delay_compensation = *lambda;
      add("delay compensated", compensated);
    }
    if (plan.setting.momentum == 0) continue;
    Mitigation corrected;
    corrected.momentum_correction = true;
    add("momentum corrected", corrected);
  }
  return all;
}

/// The forecast, and the curves that it was fitted to.
std::string page_of(const ForecastReport& report, const ForecastCommand& command) {
  auto curves = nlohmann::ordered_json::array();
  for (const std::filesystem::path& file : command.curves)
    curves.push_back(nlohmann::ordered_json::parse(to_json(read_curve(file))));
  return to_html(to_json(report), {{"curves", std::move(curves)}});
}

void check_command(const ForecastCommand& command) {
  const bool paced = !command.scenario.empty();
  if (paced && (!command.staleness.empty() || command.samples_per_update)) {
    refuse("--scenario: says itself how stale updates are and of how many samples",
           "leave out --staleness and --samples-per-update");
  }
  if (!paced && command.best_bound)
    refuse("--best-bound: bounds are simulated", "add --scenario FILE");
  if (!paced && command.whole_run)
    refuse("--whole-run: the run is simulated", "add --scenario FILE");
  if (!paced && command.at) refuse("--at: the pace is simulated", "add --scenario FILE");
  if (command.best_bound && !command.at && !command.accuracy) {
    refuse("--best-bound: best for what?", "add --at TIME or --to-accuracy SHARE");
  }
}

std::vector<TrainingPlan> plans_of(const ForecastCommand& command, const TrainingSetting& asked) {
  if (command.scenario.empty())
    return {{fmt::format("staleness {:.3g}", asked.staleness.mean()), asked, std::nullopt}};
  PaceQuestion question;
  question.scenario = command.scenario;
  question.overrides = command.overrides;
  question.best_bound = command.best_bound;
  question.whole_run = command.whole_run;
  question.jobs = jobs_or_cores(command.jobs);
  return simulated_plans(question, asked);
}

}  // namespace

void forecast_command(const ForecastCommand& command) {
  check_command(command);
  const FittedCurves fitted = fit_curves(command.curves);
  check_outputs({{"--output", command.output}, {"--html", command.html}}, {command.scenario});
  const TrainingSetting asked = asked_setting(command, fitted);
  std::vector<TrainingPlan> plans = plans_of(command, asked);
  if (command.mitigations) {
    plans = with_mitigations(plans, command.delay_compensation);
  } else if (command.delay_compensation) {
    for (TrainingPlan& plan : plans) plan.setting.delay_compensation = *command.delay_compensation;
  }
  ForecastReport report{.model = fitted.model,
                        .network = fitted.network,
                        .dataset = fitted.dataset,
                        .strategies = {},
                        .compared = command.best_bound || command.mitigations};
  for (const TrainingPlan& plan : plans) {
    report.strategies.push_back(forecast_strategy(
        fitted.model, plan,
        {.at = command.at, .samples = command.samples, .accuracy = command.accuracy}));
  }
  if (!command.html.empty()) write_file(command.html, page_of(report, command));
  if (command.format == "json") return write_result(command.output, to_json(report));
  if (command.format == "csv") return write_result(command.output, to_csv(report));
  const bool color =
      command.output.empty() ? use_color(command.color) : command.color == ColorChoice::always;
  write_result(command.output, to_table(report, terminal_width(), color));
}

}  // namespace rehearse
