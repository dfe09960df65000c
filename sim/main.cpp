#ifdef REHEARSE_MIMALLOC
#include <mimalloc.h>
#include <pthread.h>
#endif

#include <cerrno>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "base/program.hpp"
#include "base/stop_signal.hpp"
#include "cli/arguments.hpp"
#include "cli/command_line.hpp"
#include "config/files_read.hpp"
#include "config/key_places.hpp"
#include "keys/keys.hpp"
#include "model/model.hpp"

namespace rehearse {
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

void add_list(CLI::App& app, ListCommand& command) {
  CLI::App* list = app.add_subcommand("list", "What can be named in a scenario, and every key");
  list->add_option("WHAT", command.what, "models, clusters, gpus, strategies, optimizers,\n"
                   "profiles, scenarios, studies, plans or keys")
      ->required()
      ->check(one_of(list_names()))
      ->type_name("");
  list->add_option("PREFIX", command.prefix, "Of keys: those that begin so, such as strategy.ddp")
      ->type_name("");
  list->add_option("--format", command.format, "Of keys: text or markdown")
      ->check(one_of({"text", "markdown"}))
      ->type_name("FORMAT");
  list->callback([&command] { list_command(command); });
}

void add_model(CLI::App& app, ModelCommand& command) {
  CLI::App* model = app.add_subcommand(
      "model", "What a network is made of: parameters, FLOPs, saved bytes");
  model->add_option("MODEL", command.model, "A built-in network, or a Hugging Face config.json")
      ->required()
      ->type_name("");
  model->add_option("--sequence", command.sequence, "Tokens of a sample")
      ->check(CLI::Range(1, 10'000'000))
      ->type_name("N");
  model->add_option("--image", command.image, "Pixels per side of a sample")
      ->check(CLI::Range(1, 65'536))
      ->type_name("N");
  model->add_option("--precision", command.precision, "As in a scenario (default bf16_pure)")
      ->check(one_of(precision_names()))
      ->type_name("NAME");
  model->add_option("--format", command.format, "table or json")
      ->check(one_of({"table", "json"}))
      ->type_name("NAME");
  model->add_option("--output", command.output, "Write it to this file")->type_name("FILE");
  model->callback([&command] { model_command(command); });
}

/// Parses the command line and runs the subcommand that it names.
ExitCode run_command_line(int argc, char** argv) {
  FilesKept kept;
  CLI::App app("Rehearse a training run before renting the cluster.", "rehearse");
  app.set_version_flag("--version", "rehearse " REHEARSE_VERSION);
  app.formatter(std::make_shared<PlainHelp>());
  app.require_subcommand(1);
  RunCommand run;
  CheckCommand check_files;
  ExplainCommand explain;
  ForecastCommand forecast;
  CurvesCommand curves;
  ListCommand list;
  ModelCommand model;
  ImportCommand import;
  CollectiveCommand collective;
  ValidateCommand validate;
  SweepCommand sweep;
  PlanCommand plan;
  CollectCommand collect;
  add_run(app, run);
  add_check(app, check_files);
  add_explain(app, explain);
  add_forecast(app, forecast);
  add_curves(app, curves);
  add_list(app, list);
  add_model(app, model);
  add_collective(app, collective);
  add_import(app, import);
  add_validate(app, validate);
  add_sweep(app, sweep);
  add_plan(app, plan);
  add_collect(app, collect);
  app.footer("First steps: rehearse run scenarios/toy_ddp.yaml\n"
             "Every key of a scenario: rehearse list keys");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return static_cast<ExitCode>(app.exit(wrong));  // --help
    throw InputError(usage_message(app, wrong, argc, argv));
  }
  return ExitCode::success;
}

/// Scenarios are simulated in children, each of which copies the page tables of all that this
/// process keeps: what it has freed goes back to the system before it forks.
void fork_without_freed_memory() {
#ifdef REHEARSE_MIMALLOC
  pthread_atfork([] { mi_collect(true); }, nullptr, nullptr);
#endif
}

}  // namespace
}  // namespace rehearse

#ifdef REHEARSE_MIMALLOC
/// Debian's mimalloc is compiled as C: where an operator new finds no memory it tells its handler of
/// errors, and aborts. Libraries initialise themselves before main(), and this comes before them.
[[gnu::section(".preinit_array"), gnu::used]] static void (*const before_libraries)() = [] {
  mi_register_error(
      [](int error, void*) {
        if (error == ENOMEM) rehearse::end_out_of_memory();
      },
      nullptr);
};
#endif

int main(int argc, char** argv) {
  rehearse::fork_without_freed_memory();
  rehearse::end_at_stop_signals();
  rehearse::set_key_places(rehearse::scenario_places);
  return rehearse::run_program([&] { return rehearse::run_command_line(argc, argv); });
}
