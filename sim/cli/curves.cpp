// `rehearse curves CURVE...`: how runs end that differ by chance alone.
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "config/json/json_text.hpp"
#include "html/html.hpp"
#include "view/curves_views.hpp"

namespace rehearse::inline cli {
namespace {

struct CurvesCommand {
  std::vector<std::filesystem::path> curves;
  AnswerOptions answer;
};

std::string page_of(const CurvesReport& report) {
  auto curves = nlohmann::ordered_json::array();
  for (const NamedCurve& one : report.runs)
    curves.push_back(parsed_ordered_json(to_json(one.curve)));
  return to_html(json_view(report), {{"curves", std::move(curves)}});
}

void compare_curves(const CurvesCommand& command) {
  std::vector<NamedCurve> runs;
  for (const std::filesystem::path& file : command.curves)
    runs.push_back({file.string(), read_curve(file)});
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}});
  const CurvesReport report = report_of(std::move(runs));
  write_answer({.table = [&](int width, bool color) { return to_table(report, width, color); },
                .json = [&] { return json_text(json_view(report), 2) + "\n"; },
                .csv = [&] { return to_csv(report); },
                .page = [&] { return page_of(report); }},
               command.answer);
}

}  // namespace

void add_curves(CLI::App& app) {
  const auto command = std::make_shared<CurvesCommand>();
  CLI::App& curves =
      *app.add_subcommand("curves", "How runs end that differ by seed or order of updates alone");
  curves.add_option("CURVES", command->curves, "Curves of replays or real runs (JSON)")->required();
  add_answer(curves, command->answer, "table, json, or csv of the runs");
  curves.callback([command] { compare_curves(*command); });
}

}  // namespace rehearse::inline cli
