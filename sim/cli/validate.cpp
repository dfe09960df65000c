// `rehearse validate [SET...]`: predictions beside measurements, with their errors.
#include <fmt/format.h>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/recalibrate.hpp"
#include "html/html.hpp"
#include "study/progress_bar.hpp"
#include "validation/played.hpp"
#include "validation/views.hpp"

namespace rehearse::inline cli {
namespace {

struct ValidateCommand {
  std::vector<std::filesystem::path>
      files;                         ///< sets, as case_files() takes them; none: the scoreboard
  std::vector<std::string> metrics;  ///< only these; none: all
  std::vector<std::string> names;    ///< of cases, or patterns of them; none: all
  AnswerOptions answer;
  ErrorBounds bounds;          ///< an Error (ExitCode::refuted) beyond them
  std::filesystem::path site;  ///< to write; empty: none
  int jobs = 0;                ///< child processes side by side; 0: one per core
  bool live = false;           ///< the launcher's: this program refuses it

  bool is_scoreboard() const { return files.empty(); }
};

Validation validated(const ValidateCommand& command, std::vector<CaseFile> cases) {
  ProgressBar bar(command.answer.quiet);
  return play(std::move(cases), {.jobs = jobs_or_cores(command.jobs),
                                 .progress = [&](std::size_t done, std::size_t all) {
                                   bar.show({.done = done, .all = all});
                                 }});
}

std::string table_of(const Validation& validation, const ValidateCommand& command, bool color) {
  const bool markdown = command.answer.format == "markdown";
  if (command.is_scoreboard())
    return markdown ? to_scoreboard_markdown(validation) : to_scoreboard(validation, color);
  return markdown ? to_markdown(validation) : to_table(validation, color);
}

void validate(const ValidateCommand& command) {
  if (command.live) {
    throw InputError(
        "rehearse: error: --live measures with the calibrator, which this program is not\n"
        "remedy: run ./rehearse validate --live as root, from the sources");
  }
  std::vector<CaseFile> cases = read_cases(command.files, command.metrics, command.names);
  check_outputs({{"--output", command.answer.output},
                 {"--html", command.answer.html},
                 {"--recalibrate", command.site}});
  if (!command.site.empty()) recalibrate(cases, command.site);
  const Validation told = validated(command, std::move(cases));
  write_answer({.table = [&](int, bool color) { return table_of(told, command, color); },
                .json = [&] { return to_json(told); },
                .csv = [&] { return to_csv(told); },
                .page = [&] { return to_html(to_json(told)); }},
               command.answer);
  throw_failures(told);
  if (const auto lines = inputs_outside(told); !lines.empty()) {
    throw Error(ExitCode::refuted,
                fmt::format("rehearse: more inputs of the model lie outside of their own 90 % "
                            "intervals than chance "
                            "has:\n{}\n"
                            "remedy: fit anew what the case's `input` names, or widen what it may "
                            "be off by",
                            fmt::join(lines, "\n")));
  }
  if (const auto missing = without_numbers(told, command.bounds); !missing.empty())
    throw InputError(fmt::format(
        "rehearse: error: a bound holds of nothing: no case that is held out has a {}\nremedy: "
        "another set, or without that --fail option",
        fmt::join(missing, ", a ")));
  if (const auto lines = beyond(told, command.bounds); !lines.empty()) {
    throw Error(ExitCode::refuted,
                fmt::format("rehearse: predictions are beyond a bound:\n{}\nremedy: the table has "
                            "every error; --help tells the bounds",
                            fmt::join(lines, "\n")));
  }
}

void add_bounds(CLI::App& app, ErrorBounds& bounds) {
  add_parsed(app, "--fail-mean", bounds.mean, parse_share,
             "Exit with 1 if a group's mean relative error is more: --fail-mean 5%", "PERCENT");
  add_parsed(app, "--fail-max", bounds.max, parse_share,
             "Likewise for each relative error: --fail-max 12%", "PERCENT");
  add(app, "--fail-staleness", bounds.staleness,
      "Likewise for each mean staleness's difference, in updates", "UPDATES")
      ->check(CLI::NonNegativeNumber);
  add(app, "--fail-ks", bounds.distance,
      "Likewise for each Kolmogorov-Smirnov distance of staleness", "D")
      ->check(CLI::NonNegativeNumber);
  add(app, "--fail-accuracy", bounds.accuracy,
      "Likewise if the mean accuracy of a setting's runs is more\n"
      "points off, or a verdict (diverges or not) is wrong:\n--fail-accuracy 2",
      "POINTS")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace

void add_validate(CLI::App& app) {
  const auto command = std::make_shared<ValidateCommand>();
  CLI::App& validate_app = *app.add_subcommand("validate", "Predictions beside real measurements");
  validate_app.add_option("SET", command->files,
                          "Names of shipped sets, files, folders, or all; none: a scoreboard");
  add_repeated(validate_app, "--metric", command->metrics,
               "Compare only this key of the report: --metric step_time_s (repeatable)", "KEY");
  add_repeated(validate_app, "--case", command->names,
               "Play only this case, or those of a pattern:\n--case 'llama_8b/*' (repeatable)",
               "NAME");
  add_choice(validate_app, "--format", command->answer.format, "table, json, csv or markdown",
             {"table", "json", "csv", "markdown"}, "FORMAT");
  add_output(validate_app, command->answer, "Write the table to this file");
  add_jobs(validate_app, command->jobs, "Predictions");
  add_html(validate_app, command->answer);
  add_bounds(validate_app, command->bounds);
  add(validate_app, "--recalibrate", command->site,
      "Solve the GPUs' speed from the measured steps, and write the\nmachines with it to this "
      "file, which a cluster names: use: FILE",
      "FILE");
  validate_app.add_flag("--live", command->live,
                        "Measure every case anew on this machine first (./rehearse, as root)");
  validate_app.add_flag("--quiet", command->answer.quiet, "No progress line");
  add_color(validate_app, command->answer);
  validate_app.callback([command] { validate(*command); });
}

}  // namespace rehearse::inline cli
