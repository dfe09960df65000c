// `rehearse import config FILE...`: a training framework's configuration as a scenario.
#include "cli/import_config.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "cli/options.hpp"
#include "config/files_read.hpp"
#include "config/foreign_file.hpp"
#include "foreign/config_file.hpp"
#include "foreign/import_config.hpp"

namespace rehearse::inline cli {
namespace {

struct ImportConfigCommand {
  std::vector<std::filesystem::path> files;
  ImportOptionsOfConfig options;
  AnswerOptions answer;
};

void import_it(const ImportConfigCommand& command) {
  check_outputs({{"--output", command.answer.output}}, command.files);
  const ImportedConfig imported = import_config(command.files, command.options);
  if (!command.answer.quiet && command.answer.format != "json")
    tell(fmt::format("{}\n{}", imported.title, lists_of(imported.told)));
  write_answer({.table = [&](int, bool) { return imported.scenario; },
                .json = [&] { return lists_as_json(imported); }},
               command.answer);
}

}  // namespace

void add_import_config(CLI::App& import_app) {
  const auto command = std::make_shared<ImportConfigCommand>();
  CLI::App& app =
      *import_app.add_subcommand("config", "A scenario from a training framework's configuration");
  Asked& asked = command->options.asked;
  app.add_option("FILES", command->files,
                 "A configuration, command line or script; several that\nbelong together")
      ->required();
  add_choice(app, "--framework", command->options.format, "Whose it is, where that is not plain",
             format_names());
  add(app, "--on", asked.on,
      "Its machines: 4xaws_p5, or a map of a cluster's keys;\naws_p5: as many nodes as hold the "
      "file's GPUs, else one",
      "NxCLUSTER");
  add(app, "--model", asked.model,
      "In the place of what the file says or lacks: a built-in\nnetwork, or a config.json",
      "MODEL");
  add(app, "--sequence", asked.sequence, "Likewise: tokens of a sample", "TOKENS");
  add(app, "--batch", asked.batch, "Likewise: samples of a micro-batch", "N");
  add(app, "--precision", asked.precision,
      "Likewise: bf16 and fp16 as that framework mixes them,\nelse a value of model.precision",
      "NAME");
  add(app, "--accumulation", asked.accumulation, "Likewise: micro-batches of a step", "N");
  add(app, "--lengths", asked.lengths,
      "Of post-training: mean tokens of prompts and responses,\nand the responses' deviation, as "
      "logs have them",
      "P,R[,D]");
  add(app, "--config", command->options.function,
      "Which of a Python file's configurations (torchtitan)", "NAME");
  app.add_flag("--allow", command->options.allow,
               "Leave out what changes the answer and cannot be said");
  add_choice(app, "--format", command->answer.format, "table or json", {"table", "json"}, "FORMAT");
  add_output(app, command->answer, "Write the scenario to this file");
  app.add_flag("--quiet", command->answer.quiet, "The scenario alone, without the five lists");
  app.callback([command] { import_it(*command); });
}

std::filesystem::path scenario_of(const std::filesystem::path& file, const TypedQuestion& question,
                                  const CLI::App& app) {
  const auto excluded = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (app.count(name) > 0) throw CLI::ExcludesError("SCENARIO", name);
  };
  excluded({"--strategy", "--tokens"});
  if (!is_foreign_config(file)) {
    // A file's kind is told before the options that it takes.
    refuse_foreign_file(read_input(file, kMaxTextBytes), file.string());
    excluded({"--model", "--precision"});
    if (question.on.empty()) return file;
    throw CLI::RequiresError("--on", "--model");
  }
  ImportOptionsOfConfig options;
  options.asked = {.on = question.on,
                   .model = question.model,
                   .sequence = question.sequence,
                   .batch = app.count("--batch") > 0 ? question.batch : "",
                   .precision = app.count("--precision") > 0 ? question.precision : "",
                   .accumulation = ""};
  options.read_back = false;  // it is read with --set
  const ImportedConfig imported = import_config({file}, options);
  tell(fmt::format("{}\n{}", imported.title, lists_of(imported.told)));
  const std::filesystem::path name = file.string() + " (as a scenario)";
  FilesKept::current()->keep(name, imported.scenario);
  return name;
}

}  // namespace rehearse::inline cli
