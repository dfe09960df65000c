// `rehearse measured FOLDER`: what `record` or `calibrate` measured, with its spread.
#include "measured/measured.hpp"

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "html/html.hpp"

namespace rehearse::inline cli {
namespace {

struct MeasuredCommand {
  std::filesystem::path place;
  AnswerOptions answer;
};

void show_measured(const MeasuredCommand& command) {
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}});
  const MeasuredFolder measured = read_measured(command.place);
  write_answer({.table = [&](int width, bool color) { return to_terminal(measured, width, color); },
                .json = [&] { return to_json(measured); },
                .csv = [&] { return to_csv(measured); },
                .page = [&] { return to_html(to_json(measured)); }},
               command.answer);
}

}  // namespace

void add_measured(CLI::App& app) {
  const auto command = std::make_shared<MeasuredCommand>();
  CLI::App& measured_app =
      *app.add_subcommand("measured", "Show what was measured, with its spread");
  measured_app
      .add_option("FOLDER", command->place, "Of `record` or `calibrate`; or one of their profiles")
      ->required();
  add_answer(measured_app, command->answer, "table, json, or csv of all parts");
  measured_app.footer(
      "Examples:\n"
      "  rehearse measured record --html record.html\n"
      "  rehearse compare monday tuesday       two records: why is one slower?");
  measured_app.callback([command] { show_measured(*command); });
}

}  // namespace rehearse::inline cli
