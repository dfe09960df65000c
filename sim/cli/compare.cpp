// `rehearse compare A B`: what differs between two predictions, and why.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "base/number.hpp"
#include "base/progress_line.hpp"
#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "config/files_read.hpp"
#include "config/json/json_text.hpp"
#include "html/html.hpp"
#include "measured/measured.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "study/axes.hpp"
#include "study/collect.hpp"
#include "view/comparison.hpp"
#include "view/views.hpp"

namespace rehearse::inline cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostReport = std::size_t{512} << 20;

struct CompareCommand {
  std::string first, second;           ///< `second` empty: the first with `overrides`
  std::vector<std::string> overrides;  ///< of the second, "cluster.nodes=8"
  std::vector<std::string> both;       ///< of both
  AnswerOptions answer;
};

/// Every value of a file by its dotted path; items of lists by their index.
void add_settings(const Value& value, std::map<std::string, std::string>& settings) {
  if (value.is_map()) {
    Map map = value.as_map();
    for (const std::string& key : map.keys()) add_settings(map.require(key), settings);
    if (!map.keys().empty()) return;
  }
  if (value.path() != "description") settings[value.path()] = flow_text(value);
}

/// Simulated in a child: this process could do so once.
Compared simulated(const std::string& word, const std::filesystem::path& file,
                   const std::vector<std::string>& overrides) {
  Compared side{.name = word, .report = {}};
  add_settings(Document::load(file)->with_overrides(overrides)->root(), side.settings);
  const Json told = parsed_json(in_child_process([&] {
    const Prediction prediction = predict(read_question(file, overrides));
    return json_text(Json{{"report", to_json(prediction.report)},
                          {"shifts", shifts_of(prediction.error_sources)}});
  }));
  side.report = report_from_json(told.at("report").get<std::string>(), file.string());
  side.shifts = told.at("shifts").get<ErrorShifts>();
  for (const std::string& one : overrides) side.name += " --set " + one;
  return side;
}

/// A stored report with what belongs to a scenario's file, which stores leave out.
std::string whole_report(const std::string& text, const StudyIdentity& study) {
  Json report = parsed_json(text);
  report["schema"] = "rehearse.report/1";
  report["scenario"] = study.scenario;
  report["description"] = study.description;
  return json_text(report);
}

/// "FOLDER#3": the third point of a study's results.
Compared stored(const std::string& folder, const std::string& point) {
  const ResultStore store(result_files({folder}).front());
  const std::optional<double> number = decimal_number(point);
  const std::vector<StudyPoint> points = store.points();
  if (!number || *number < 1 || *number > static_cast<double>(points.size()))
    throw InputError(fmt::format("{}#{}: error: no such point\nremedy: its points are 1 to {}",
                                 folder, point, points.size()));
  const StudyPoint& chosen = points[static_cast<std::size_t>(*number) - 1];
  const auto outcome = store.find(chosen.key);
  if (!outcome || outcome->code != ExitCode::success)
    throw InputError(
        fmt::format("{}#{}: error: this point has no report\nremedy: another point, "
                    "or its sweep again",
                    folder, point));
  const StudyIdentity study = store.identity().value();
  const std::string name = folder + "#" + point;
  Compared side{.name = name, .report = report_from_json(whole_report(outcome->text, study), name)};
  side.shifts = shifts_of(side.report.mechanisms);
  for (std::size_t i = 0; i < study.axes.size(); ++i)
    side.settings[study.axes[i]] = chosen.labels[i];
  return side;
}

Compared reported(const std::filesystem::path& file) {
  Compared side{.name = file.string(),
                .report = report_from_json(read_input(file, kMostReport), file.string())};
  side.shifts = shifts_of(side.report.mechanisms);
  return side;
}

void refuse_overrides(const std::string& word, const std::vector<std::string>& overrides) {
  if (overrides.empty()) return;
  throw InputError(fmt::format(
      "{}: error: --set changes scenarios, and this is none\nremedy: give its scenario", word));
}

/// By its name: a report ends in .json, a stored point has a `#`, all else is a scenario.
Compared side_of(const std::string& word, const std::vector<std::string>& overrides) {
  const std::size_t hash = word.rfind('#');
  if (hash != std::string::npos) {
    refuse_overrides(word, overrides);
    return stored(word.substr(0, hash), word.substr(hash + 1));
  }
  const std::filesystem::path file = input_file(word);
  if (file.extension() != ".json") return simulated(word, file, overrides);
  refuse_overrides(word, overrides);
  return reported(file);
}

Comparison compared(const CompareCommand& command) {
  ProgressLine line(command.answer.quiet);
  line.show("simulating: 1 of 2");
  Compared first = side_of(command.first, command.both);
  line.show("simulating: 2 of 2");
  const std::string& other = command.second.empty() ? command.first : command.second;
  std::vector<std::string> changes = command.both;
  changes.insert(changes.end(), command.overrides.begin(), command.overrides.end());
  return compare(std::move(first), side_of(other, changes));
}

/// Two folders of `record` or `calibrate`: what was measured, side by side. InputError where one
/// alone is such a folder.
bool are_measured(const CompareCommand& command) {
  const bool first = is_measured_folder(command.first), second = is_measured_folder(command.second);
  if (first == second) return first;
  throw InputError(fmt::format(
      "{}: error: no measurements are in it, and {} has some\n"
      "remedy: name two folders of `rehearse record` or `calibrate`",
      first ? (command.second.empty() ? "the second side" : command.second) : command.first,
      first ? command.first : command.second));
}

void compare_folders(const CompareCommand& command) {
  refuse_overrides(command.second, command.overrides);
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}});
  const MeasuredComparison both =
      compare_measured(read_measured(command.first), read_measured(command.second));
  write_answer({.table = [&](int width, bool color) { return to_terminal(both, width, color); },
                .json = [&] { return to_json(both); },
                .csv = [&] { return to_csv(both); },
                .page = [&] { return to_html(to_json(both)); }},
               command.answer);
}

void compare_sides(const CompareCommand& command) {
  if (are_measured(command)) return compare_folders(command);
  if (command.second.empty() && command.overrides.empty())
    throw InputError(
        "rehearse: error: one side alone is compared with nothing\n"
        "remedy: name a second one, or what is to change: --set cluster.nodes=8");
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}});
  const Comparison both = compared(command);
  write_answer({.table = [&](int width, bool color) { return to_terminal(both, width, color); },
                .json = [&] { return to_json(both); },
                .csv = [&] { return to_csv(both); },
                .page = [&] { return to_html(to_json(both)); }},
               command.answer);
}

}  // namespace

void add_compare(CLI::App& app) {
  const auto command = std::make_shared<CompareCommand>();
  CLI::App& compare_app = *app.add_subcommand("compare", "Say what differs between two, and why");
  compare_app
      .add_option(
          "A", command->first,
          "A scenario, a report (JSON), RESULTS#POINT, or a\nfolder of `record` or `calibrate`")
      ->required();
  compare_app.add_option("B", command->second, "Another; else A with what --set changes");
  add_overrides(compare_app, command->overrides, "Replace a value of B's scenario (repeatable)");
  add_like(compare_app, command->both);
  add_price(compare_app, command->overrides);
  add_answer(compare_app, command->answer, "table, json, or csv of the figures");
  compare_app.add_flag("--quiet", command->answer.quiet, "No progress line");
  compare_app.footer(
      "Examples:\n"
      "  rehearse compare toy_ddp --set cluster.nodes=8\n"
      "  rehearse compare before.json after.json --html difference.html\n"
      "  rehearse compare ddp_or_fsdp.results#1 ddp_or_fsdp.results#5\n"
      "  rehearse compare monday tuesday       two records: why is one slower?");
  compare_app.callback([command] { compare_sides(*command); });
}

}  // namespace rehearse::inline cli
