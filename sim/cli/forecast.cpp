// `rehearse forecast CURVE...`: what staleness does to accuracy, from a few runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/forecast_loss.hpp"
#include "cli/options.hpp"
#include "config/json/json_text.hpp"
#include "convergence/curve.hpp"
#include "convergence/fitted_curves.hpp"
#include "html/html.hpp"
#include "predict/measured_job.hpp"
#include "predict/paced_plans.hpp"
#include "scenario/same_training.hpp"
#include "view/forecast_views.hpp"

namespace rehearse::inline cli {
namespace {

struct ForecastCommand {
  std::vector<std::filesystem::path> curves;
  PaceQuestion pace;      ///< of a scenario that is simulated; its file empty: none
  std::string staleness;  ///< "3.5" or "0:10,1:20"; empty: none
  std::optional<double> learning_rate, momentum, samples_per_update;  ///< nothing: most curves'
  ForecastQuestion question;
  std::optional<double> delay_compensation;  ///< lambda; nothing: none
  bool mitigations = false;                  ///< compare with what may help
  std::vector<std::string> accepted;         ///< differences of the scenario from the curves
  int jobs = 0;                              ///< simulations side by side; 0: one per core
  LossQuestion loss;                         ///< asked instead of all else
  AnswerOptions answer;
};

[[noreturn]] void refuse(const std::string& message, const std::string& remedy) {
  throw InputError(fmt::format("rehearse: error: {}\nremedy: {}", message, remedy));
}

TrainingSetting asked_setting(const ForecastCommand& command, const FittedCurves& fitted) {
  TrainingSetting setting = fitted.usual;
  if (command.learning_rate) setting.learning_rate = *command.learning_rate;
  if (command.momentum) setting.momentum = *command.momentum;
  if (command.samples_per_update) setting.samples_per_update = *command.samples_per_update;
  if (command.staleness.empty()) return setting;
  const std::optional<Staleness> given = parse_staleness(command.staleness);
  if (!given)
    refuse(fmt::format("--staleness: expected a mean or counts by staleness; got \"{}\"",
                       command.staleness),
           "--staleness 3.5 or --staleness 0:10,1:20,7:3");
  setting.staleness = *given;
  return setting;
}

/// The forecast, and the curves that it was fitted to.
std::string page_of(const ForecastReport& report, const ForecastCommand& command) {
  auto curves = nlohmann::ordered_json::array();
  for (const std::filesystem::path& file : command.curves)
    curves.push_back(parsed_ordered_json(to_json(read_curve(file))));
  return to_html(to_json(report), {{"curves", std::move(curves)}});
}

void check_question(const ForecastCommand& command) {
  const bool paced = !command.pace.scenario.empty();
  if (paced && (!command.staleness.empty() || command.samples_per_update)) {
    refuse("--scenario: says itself how stale updates are and of how many samples",
           "leave out --staleness and --samples-per-update");
  }
  if (!paced && command.pace.best_bound)
    refuse("--best-bound: bounds are simulated", "add --scenario FILE");
  if (!paced && !command.accepted.empty())
    refuse("--accept: differences are those of a scenario", "add --scenario FILE");
  if (!paced && command.pace.whole_run)
    refuse("--whole-run: the run is simulated", "add --scenario FILE");
  if (!paced && command.question.at) refuse("--at: the pace is simulated", "add --scenario FILE");
  if (command.pace.best_bound && !command.question.at && !command.question.accuracy)
    refuse("--best-bound: best for what?", "add --at TIME or --to-accuracy SHARE");
}

/// Compares what the curves trained with what the scenario does. InputError where they differ in
/// what nobody accepts.
TrainingMatch checked_match(const ForecastCommand& command, const FittedCurves& fitted) {
  const PaceQuestion& pace = command.pace;
  if (pace.scenario.empty()) return {{}, fmt::format("{} on {}", fitted.network, fitted.dataset)};
  TrainingMatch match = match_training(fitted, read_question(pace.scenario, pace.overrides));
  const std::vector<std::string> refused = match.refused(command.accepted);
  if (!refused.empty())
    throw InputError(
        fmt::format("{}: error: {}\nremedy: give curves of this training, or, knowing "
                    "that they speak for it: --accept {}",
                    pace.scenario.string(), match.words(), fmt::join(refused, ",")));
  return match;
}

std::vector<TrainingPlan> plans_of(const ForecastCommand& command, const TrainingSetting& asked) {
  if (command.pace.scenario.empty())
    return {{fmt::format("staleness {:.3g}", asked.staleness.mean()), asked, std::nullopt}};
  PaceQuestion question = command.pace;
  question.jobs = jobs_or_cores(command.jobs);
  return simulated_plans(question, asked);
}

void forecast(const ForecastCommand& command) {
  check_question(command);
  const FittedCurves fitted = fit_curves(command.curves);
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}},
                {command.pace.scenario});
  TrainingMatch match = checked_match(command, fitted);
  std::vector<TrainingPlan> plans = plans_of(command, asked_setting(command, fitted));
  if (command.mitigations) {
    plans = with_mitigations(plans, command.delay_compensation);
  } else if (command.delay_compensation) {
    for (TrainingPlan& plan : plans) plan.setting.delay_compensation = *command.delay_compensation;
  }
  ForecastReport report{.model = fitted.model,
                        .network = fitted.network,
                        .dataset = fitted.dataset,
                        .curves = std::move(match),
                        .strategies = {},
                        .compared = command.pace.best_bound || command.mitigations};
  for (const TrainingPlan& plan : plans)
    report.strategies.push_back(forecast_strategy(fitted.model, plan, command.question));
  write_answer({.table = [&](int width, bool color) { return to_table(report, width, color); },
                .json = [&] { return to_json(report); },
                .csv = [&] { return to_csv(report); },
                .page = [&] { return page_of(report, command); }},
               command.answer);
}

void add_question(CLI::App& app, ForecastCommand& command) {
  add_parsed(app, "--learning-rate", command.learning_rate, parse_number_above_0,
             "Else that of most curves", "RATE");
  add_parsed(app, "--momentum", command.momentum, parse_momentum, "Likewise", "SHARE");
  add_parsed(app, "--delay-compensation", command.delay_compensation, parse_number_above_0,
             "With this lambda (DC-ASGD); beside --mitigations one more of them", "LAMBDA");
  add_parsed(app, "--samples-per-update", command.samples_per_update, parse_number_above_0,
             "Likewise", "N");
  add_parsed(app, "--at", command.question.at, parse_seconds,
             "Tell the accuracy after this time: --at 2h", "TIME");
  add_parsed(app, "--samples", command.question.samples, parse_number_above_0,
             "Tell it after so many samples", "N");
  add_parsed(app, "--to-accuracy", command.question.accuracy, parse_fraction,
             "Tell when this is reached: 0.95", "SHARE");
  add_parsed(app, "--rates", command.question.course.rates, parse_rates,
             "The rate decays: --rates 50%:0.1,75%:0.01 of the samples asked for", "CHANGES");
  add_parsed(app, "--synchronous-first", command.question.course.synchronous_first,
             parse_share_below_1,
             "All workers in step for this share of the samples, then stale: 5%", "SHARE");
}

void add_accepted(CLI::App& app, ForecastCommand& command) {
  app.add_option("--accept", command.accepted,
                 "Take curves of another network, data or optimizer:\n--accept network")
      ->type_name("WHAT")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(one_of(kinds_of_difference()));
}

}  // namespace

void add_forecast(CLI::App& app) {
  const auto command = std::make_shared<ForecastCommand>();
  CLI::App& forecast_app =
      *app.add_subcommand("forecast", "What staleness does to accuracy, from a few runs");
  forecast_app.add_option("CURVES", command->curves, "Curves of replays or real runs (JSON)");
  add(forecast_app, "--scenario", command->pace.scenario, "Simulate this for pace and staleness",
      "FILE");
  add_overrides(forecast_app, command->pace.overrides,
                "Replace a value of the scenario (repeatable)");
  add_accepted(forecast_app, *command);
  forecast_app.add_flag("--whole-run", command->pace.whole_run,
                        "The scenario's steps are all, with their end");
  add(forecast_app, "--staleness", command->staleness,
      "A mean (all updates as stale: near the edge the worst\n"
      "case), or counts of updates: 0:10,1:20,7:3",
      "UPDATES");
  add_question(forecast_app, *command);
  forecast_app.add_flag("--best-bound", command->pace.best_bound,
                        "Compare staleness bounds, simulated");
  forecast_app.add_flag("--mitigations", command->mitigations, "Compare with what may help");
  add_jobs(forecast_app, command->jobs);
  add_loss_question(forecast_app, command->loss);
  add_answer(forecast_app, command->answer, "table, json, or csv of the curves");
  forecast_app.callback([command] {
    if (!command->loss.runs.empty() && command->curves.empty())
      return forecast_loss(command->loss, command->answer);
    if (!command->loss.runs.empty())
      refuse("--loss: curves tell of accuracy, runs of a loss", "ask one of the two");
    if (command->curves.empty()) throw CLI::RequiredError("CURVES");
    forecast(*command);
  });
}

}  // namespace rehearse::inline cli
