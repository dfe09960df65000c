#include "cli/command_line.hpp"

#include <sstream>

#include "base/error.hpp"
#include "cli/answer.hpp"
#include "cli/commands.hpp"
#include "config/files_read.hpp"
#include "html/html.hpp"

namespace rehearse::inline cli {
namespace {

/// Pages of --help without CLI11's own words on ranges, and on which options exclude others: the
/// message of a wrong command line says them.
class PlainHelp : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (!option->get_positional() && option->get_type_size() != 0) {
      const std::string name = option->get_type_name();
      if (!name.empty()) text = " " + name.substr(0, name.find(':'));
    }
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }
};

/// Answers --help and --version.
ExitCode tell_help(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream out;
  app.exit(asked, out, out);
  write_stdout(out.str());
  return ExitCode::success;
}

}  // namespace

ExitCode run_command_line(int argc, char** argv) {
  FilesKept kept;
  note_command({argv, argv + argc});
  CLI::App app("Rehearse a training run before renting the cluster.", "rehearse");
  app.set_version_flag("--version", "rehearse " REHEARSE_VERSION);
  app.formatter(std::make_shared<PlainHelp>());
  app.require_subcommand(1);
  for (const auto add_command :
       {add_run,        add_check,      add_explain, add_forecast, add_curves,   add_list,
        add_model,      add_collective, add_decode,  add_import,   add_export,   add_validate,
        add_sweep,      add_plan,       add_collect, add_compare,  add_measured, add_serve,
        add_help_topic, add_completion, add_man})
    add_command(app);
  refuse_empty_values(app);
  app.footer(
      "First steps: rehearse run toy_ddp\n"
      "Every key of a scenario: rehearse list keys\n"
      "A key, a word or a command: rehearse help TOPIC");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return tell_help(app, wrong);
    throw InputError(usage_message(app, wrong, argc, argv));
  }
  return ExitCode::success;
}

}  // namespace rehearse::inline cli
