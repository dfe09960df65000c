// `rehearse export FORMAT SCENARIO`: a scenario in the words of a training framework.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "cli/import_config.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "config/whole_file.hpp"
#include "foreign/export_config.hpp"
#include "foreign/traces/chakra_schedule.hpp"

namespace rehearse::inline cli {
namespace {

struct ExportCommand {
  std::string format;
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  AnswerOptions answer;
};

void export_it(const ExportCommand& command) {
  const auto document = Document::load(command.scenario)->with_overrides(command.overrides);
  const Scenario scenario = read_scenario(*document);
  check_outputs({{"--output", command.answer.output}}, {command.scenario});
  const ExportedConfig made = export_config(scenario, *document, command.format);
  for (const std::string& one : made.unsaid)
    tell(fmt::format("note: {} has no word for {}\n", command.format, one));
  for (const std::string& one : made.notes) tell(fmt::format("note: {}\n", one));
  write_answer({.table = [&](int, bool) { return made.text; }, .json = {}}, command.answer);
}

struct ExportChakraCommand {
  std::filesystem::path scenario, folder;
  std::vector<std::string> overrides;
};

/// One file for each rank, and one of the communicators.
void export_chakra(const ExportChakraCommand& command) {
  constexpr std::size_t kMostFiles = 16384;
  const Scenario scenario = read_scenario(command.scenario, command.overrides);
  const Schedule schedule = make_schedule(scenario);
  if (schedule.ranks.size() > kMostFiles)
    throw InputError(fmt::format("{}: error: {} ranks are as many files; at most {}", scenario.file,
                                 schedule.ranks.size(), kMostFiles));
  const std::string name = command.scenario.stem().string();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    write_whole_file(command.folder / fmt::format("{}.{}.et", name, rank),
                     to_chakra(chakra_nodes(schedule, rank)));
  write_whole_file(command.folder / (name + ".groups.json"), chakra_groups(schedule));
}

void add_export_chakra(CLI::App& export_app) {
  const auto command = std::make_shared<ExportChakraCommand>();
  CLI::App& app =
      *export_app.add_subcommand("chakra", "Chakra's execution traces, one for each rank");
  app.add_option("SCENARIO", command->scenario, "The scenario file (YAML)")->required();
  add_overrides(app, command->overrides, "Replace a value: --set cluster.nodes=8 (repeatable)");
  add(app, "--output", command->folder, "Write the traces into this folder", "FOLDER")->required();
  app.callback([command] { export_chakra(*command); });
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App& export_app =
      *app.add_subcommand("export", "Write what a training framework takes from a scenario");
  export_app.require_subcommand(1);
  for (const std::string& format : exported_formats()) {
    const auto command = std::make_shared<ExportCommand>();
    command->format = format;
    CLI::App& one = *export_app.add_subcommand(
        format, format == "megatron"     ? "A command line of Megatron-LM"
                : format == "torchtitan" ? "A TOML of torchtitan, up to 2026-02"
                : format == "deepspeed"  ? "A JSON of DeepSpeed"
                : format == "trl"        ? "A YAML of TRL's SFT"
                : format == "nemo" ? "A YAML of Megatron-Bridge (NeMo), over one of its recipes"
                                   : "A YAML of " + format);
    const auto question = add_typed_question(one, command->scenario);
    add_overrides(one, command->overrides, "Replace a value: --set cluster.nodes=8 (repeatable)");
    add_output(one, command->answer);
    one.callback([command, question, &one] {
      command->scenario = is_typed(*question, command->scenario, "SCENARIO")
                              ? kept_scenario(*question)
                              : scenario_of(input_file(command->scenario), *question, one);
      export_it(*command);
    });
  }
  add_export_chakra(export_app);
}

}  // namespace rehearse::inline cli
