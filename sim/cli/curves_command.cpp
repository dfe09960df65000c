#include "cli/commands.hpp"
#include "html/html.hpp"
#include "report/curves_views.hpp"

namespace rehearse {
namespace {

std::string page_of(const CurvesReport& report) {
  auto curves = nlohmann::ordered_json::array();
  for (const NamedCurve& one : report.runs)
    curves.push_back(nlohmann::ordered_json::parse(to_json(one.curve)));
  return to_html(json_view(report), {{"curves", std::move(curves)}});
}

std::string render(const CurvesReport& report, const CurvesCommand& command) {
  if (command.format == "json") return json_view(report).dump(2) + "\n";
  if (command.format == "csv") return to_csv(report);
  if (command.output.empty()) return to_table(report, terminal_width(), use_color(command.color));
  return to_table(report, 100, command.color == ColorChoice::always);
}

}  // namespace

void curves_command(const CurvesCommand& command) {
  std::vector<NamedCurve> runs;
  for (const std::filesystem::path& file : command.curves)
    runs.push_back({file.string(), read_curve(file)});
  check_outputs({{"--output", command.output}, {"--html", command.html}});
  const CurvesReport report = report_of(std::move(runs));
  if (!command.html.empty()) write_file(command.html, page_of(report));
  write_result(command.output, render(report, command));
}

}  // namespace rehearse
