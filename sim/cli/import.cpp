// `rehearse import nccl-tests FILE...` and `rehearse import points FILE...`: a communication
// profile from measurements.
#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/quoting.hpp"
#include "cli/commands.hpp"
#include "cli/import_config.hpp"
#include "cli/options.hpp"
#include "predict/scaled_points.hpp"
#include "profile/import.hpp"

namespace rehearse::inline cli {
namespace {

struct ImportCommand {
  std::string form;  ///< "nccl-tests" or "points"
  std::vector<std::filesystem::path> files;
  std::string links;       ///< of the machine, a YAML map; empty: not known
  std::string scale;       ///< the machine of logs with few sizes: "2xaws_p5"; empty: not said
  std::string collective;  ///< what an nccl-tests log leaves out; empty: it says so
  ImportOptions options;
  AnswerOptions answer;
};

/// The command that makes the same profile again; it stands in the profile's head.
std::string command_line(const ImportCommand& command) {
  std::string text = "rehearse import " + command.form;
  for (const auto& file : command.files) text += " " + file.string();
  if (!command.links.empty()) text += fmt::format(" --links \"{}\"", command.links);
  if (!command.scale.empty()) text += " --scale " + shell_quoted(command.scale);
  return text;
}

void import_measurements(const ImportCommand& command) {
  ImportOptions options = command.options;
  options.command = command_line(command);
  if (!command.links.empty())
    options.links = read_comm_links(Document::parse(command.links, "--links")->root());
  if (!command.collective.empty())
    options.nccl_tests.collective = parse_collective_kind(command.collective);
  if (!command.scale.empty())
    options.completed = [machine = typed_cluster(command.scale, "--scale")](CommPoints points) {
      return completed(std::move(points), machine);
    };
  check_outputs({{"--output", command.answer.output}}, command.files);
  const ImportedProfile profile = command.form == "points"
                                      ? import_points(command.files, options)
                                      : import_nccl_tests(command.files, options);
  for (const std::string& line : profile.notes) tell(fmt::format("note: {}\n", line));
  for (const std::string& line : profile.left_out)
    tell(fmt::format("warning: left out a damaged row: {}\n", line));
  write_answer({.table = [&](int, bool) { return profile.text; }, .json = {}}, command.answer);
}

void add_form(CLI::App& import_app, const std::string& form, const std::string& about) {
  const auto command = std::make_shared<ImportCommand>();
  CLI::App& app = *import_app.add_subcommand(form, about);
  ImportOptions& options = command->options;
  command->form = form;
  app.add_option("FILES", command->files, "Files to import")->required();
  add(app, "--name", options.name, "Name of the profile", "NAME");
  add(app, "--hardware", options.hardware, "What it was measured on", "TEXT");
  add(app, "--source", options.source, "Where the numbers were published", "TEXT");
  add(app, "--links", command->links,
      "Links of the machine: \"{nvlink: 300GBps, nics: 4, nic: 100Gbps}\"", "MAP");
  add_output(app, command->answer, "Write the profile to this file");
  app.callback([command] { import_measurements(*command); });
  if (form != "nccl-tests") return;
  add_choice(app, "--collective", command->collective, "Where the log does not name its program",
             collective_names());
  add_count(app, "--ranks", options.nccl_tests.ranks, "Where the log does not list them", 2);
  add_count(app, "--nodes", options.nccl_tests.nodes, "Likewise");
  add(app, "--scale", command->scale,
      "Of logs with one to three sizes, the machine whose\nmodel they scale: 2xaws_p5",
      "NxCLUSTER");
  app.add_flag("--in-place", options.nccl_tests.in_place, "Take the in-place columns");
}

}  // namespace

void add_import(CLI::App& app) {
  CLI::App& import_app =
      *app.add_subcommand("import", "Take measurements, configurations, logs and traces of others");
  import_app.require_subcommand(1);
  add_form(import_app, "nccl-tests", "A profile from the output of nccl-tests");
  add_form(import_app, "points", "A profile from tables of measured points (CSV)");
  add_import_config(import_app);
  add_import_log(import_app);
  add_import_profiler(import_app);
  add_import_chakra(import_app);
  add_import_topology(import_app);
  import_app.footer(
      "`rehearse import record SECOND --append FIRST` gives a record the batches and collectives "
      "of\n"
      "another; it is Python's, as `rehearse record` is.");
}

}  // namespace rehearse::inline cli
