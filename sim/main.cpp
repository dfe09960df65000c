#include "base/error.hpp"
#include "base/program.hpp"
#include "cli/arguments.hpp"
#include "cli/commands.hpp"

namespace rehearse {
namespace {

void add_color(CLI::App& app, ColorChoice& color) {
  app.add_option_function<std::string>(
         "--color", [&color](const std::string& when) { color = parse_color_choice(when); },
         "auto, always or never")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("WHEN");
}

/// A page beside whatever else a command writes.
CLI::Option* add_html(CLI::App& app, std::filesystem::path& file) {
  return app
      .add_option("--html", file, "Write a page that opens in any browser, without a network")
      ->type_name("FILE");
}

void add_run(CLI::App& app, RunCommand& command) {
  CLI::App* run = app.add_subcommand("run", "Predict one training run");
  run->add_option("SCENARIO", command.scenario, "The scenario file (YAML)")->required();
  run->add_option("--set", command.overrides, "Replace a value: --set cluster.nodes=8 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  CLI::Option* format = run->add_option("--format", command.format, "table, json or csv")
                            ->check(one_of({"table", "json", "csv"}))
                            ->type_name("FORMAT");
  run->add_option("--output", command.output, "Write the report to this file")->type_name("FILE");
  CLI::Option* trace =
      run->add_option("--trace", command.trace, "Write a trace that Perfetto opens")
          ->type_name("FILE");
  CLI::Option* updates = run->add_option("--updates", command.updates,
                                         "Write a parameter server's updates, for a replay (CSV)")
                             ->type_name("FILE");
  run->add_flag("--replay", command.replay,
                "Then train a real network with the updates (./rehearse from the sources); the "
                "options that follow are those of `rehearse-calibrate replay`");
  CLI::Option* snapshot =
      run->add_option("--memory-snapshot", command.memory_snapshot,
                      "Write rank 0's memory for https://pytorch.org/memory_viz")
          ->type_name("FILE");
  CLI::Option* html = add_html(*run, command.html);
  // Both are assignments, so that the report does not call them defaults and errors name the key.
  run->add_option_function<std::string>(
         "--seed",
         [&](const std::string& seed) { command.overrides.push_back("run.seed=" + seed); },
         "Seed of the random streams")
      ->type_name("N");
  run->add_option_function<std::string>(
         "--fidelity",
         [&](const std::string& name) { command.overrides.push_back("run.fidelity=" + name); },
         "hop, flow, folded or auto")
      ->check(one_of({"hop", "flow", "folded", "auto"}))
      ->type_name("NAME");
  run->add_flag("--quiet", command.quiet, "No progress line");
  CLI::Option* advice = run->add_flag("--advice", command.advice,
                                      "Look for single changes that take less memory, each with "
                                      "its price (done by itself where memory does not suffice)");
  run->add_flag("--dry-run", command.dry_run, "Print what would be simulated, and stop")
      ->excludes(advice)
      ->excludes(format)
      ->excludes(trace)
      ->excludes(updates)
      ->excludes(snapshot)
      ->excludes(html);
  add_color(*run, command.color);
  run->callback([&command] { run_command(command); });
}

void add_explain(CLI::App& app, ExplainCommand& command) {
  CLI::App* explain =
      app.add_subcommand("explain", "What bounds a step, and what more of each resource buys");
  explain->add_option("SCENARIO", command.scenario, "The scenario file (YAML)")->required();
  explain->add_option("--set", command.overrides, "Replace a value (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  explain
      ->add_option_function<std::string>(
          "--more", [&command](const std::string& text) { command.more = parse_share(text); },
          "How much more of each resource: --more 25%; else 10%")
      ->check(a_share_above_0())
      ->type_name("PERCENT");
  explain->add_option("--workers", command.workers, "Slow ranks to ask about, one by one; else 4")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  explain->add_option("--jobs", command.jobs, "Simulations side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  explain->add_option("--format", command.format, "table, json, or csv of what more buys")
      ->check(one_of({"table", "json", "csv"}))
      ->type_name("FORMAT");
  explain->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  explain->add_option("--trace", command.trace, "Write a step's trace with its critical path")
      ->type_name("FILE");
  add_html(*explain, command.html);
  explain->add_flag("--quiet", command.quiet, "No progress bar");
  add_color(*explain, command.color);
  explain->callback([&command] { explain_command(command); });
}

void add_forecast_question(CLI::App& app, ForecastCommand& command) {
  const CLI::Validator above_0 = a_number_above_0();
  app.add_option("--learning-rate", command.learning_rate, "Else that of most curves")
      ->check(above_0)
      ->type_name("RATE");
  app.add_option("--momentum", command.momentum, "Likewise")
      ->check(a_momentum())
      ->type_name("SHARE");
  app.add_option("--delay-compensation", command.delay_compensation,
                 "With this lambda (DC-ASGD); beside --mitigations one more of them")
      ->check(above_0)
      ->type_name("LAMBDA");
  app.add_option("--samples-per-update", command.samples_per_update, "Likewise")
      ->check(above_0)
      ->type_name("N");
  app.add_option_function<std::string>(
         "--at", [&command](const std::string& time) { command.at = parse_seconds(time); },
         "Tell the accuracy after this time: --at 2h")
      ->check(a_time())
      ->type_name("TIME");
  app.add_option("--samples", command.samples, "Tell it after so many samples")
      ->check(above_0)
      ->type_name("N");
  app.add_option("--to-accuracy", command.accuracy, "Tell when this is reached: 0.95")
      ->check(an_accuracy())
      ->type_name("SHARE");
}

void add_forecast(CLI::App& app, ForecastCommand& command) {
  CLI::App* forecast =
      app.add_subcommand("forecast", "What staleness does to accuracy, from a few runs");
  forecast->add_option("CURVES", command.curves, "Curves of replays or real runs (JSON)")
      ->required();
  forecast->add_option("--scenario", command.scenario, "Simulate this for pace and staleness")
      ->type_name("FILE");
  forecast->add_option("--set", command.overrides, "Replace a value of the scenario (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  forecast->add_option("--staleness", command.staleness, "A mean, or counts: 0:10,1:20,7:3")
      ->type_name("UPDATES");
  add_forecast_question(*forecast, command);
  forecast->add_flag("--best-bound", command.best_bound, "Compare staleness bounds, simulated");
  forecast->add_flag("--mitigations", command.mitigations, "Compare with what may help");
  forecast->add_option("--jobs", command.jobs, "Simulations side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  forecast->add_option("--format", command.format, "table, json, or csv of the curves")
      ->check(one_of({"table", "json", "csv"}))
      ->type_name("FORMAT");
  forecast->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  add_html(*forecast, command.html);
  add_color(*forecast, command.color);
  forecast->callback([&command] { forecast_command(command); });
}

void add_list(CLI::App& app, std::string& what) {
  CLI::App* list = app.add_subcommand("list", "What can be named in a scenario");
  list->add_option("WHAT", what, "models, clusters, strategies, profiles, scenarios or studies")
      ->required()
      ->check(one_of({"models", "clusters", "strategies", "profiles", "scenarios", "studies"}))
      ->type_name("");
  list->callback([&what] { list_command(what); });
}

void add_import_form(CLI::App& import, const std::string& form, const std::string& about,
                     ImportCommand& command) {
  CLI::App* app = import.add_subcommand(form, about);
  app->add_option("FILES", command.files, "Files to import")->required();
  app->add_option("--name", command.name, "Name of the profile")->type_name("NAME");
  app->add_option("--hardware", command.hardware, "What it was measured on")->type_name("TEXT");
  app->add_option("--source", command.source, "Where the numbers were published")
      ->type_name("TEXT");
  app->add_option("--output", command.output, "Write the profile to this file")->type_name("FILE");
  if (form == "nccl-tests") {
    app->add_option("--collective", command.collective, "Where the log does not name its program")
        ->check(one_of({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv"}))
        ->type_name("NAME");
    app->add_option("--ranks", command.ranks, "Where the log does not list them")
        ->check(CLI::Range(2, 1000000))
        ->type_name("N");
    app->add_option("--nodes", command.nodes, "Likewise")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    app->add_flag("--in-place", command.in_place, "Take the in-place columns");
  }
  app->callback([&command, form] {
    command.form = form;
    import_command(command);
  });
}

void add_import(CLI::App& app, ImportCommand& command) {
  CLI::App* import = app.add_subcommand("import", "Turn measurements into a profile");
  import->require_subcommand(1);
  add_import_form(*import, "nccl-tests", "From the output of nccl-tests", command);
  add_import_form(*import, "points", "From tables of measured points (CSV)", command);
}

/// A bound such as "5%".
void add_share(CLI::App& app, const std::string& name, std::optional<double>& share,
               const std::string& about) {
  app.add_option_function<std::string>(
         name, [&share](const std::string& text) { share = parse_share(text); }, about)
      ->check(a_share())
      ->type_name("PERCENT");
}

void add_bounds(CLI::App& app, ErrorBounds& bounds) {
  add_share(app, "--fail-mean", bounds.mean,
            "Exit with 1 if a group's mean relative error is more: --fail-mean 5%");
  add_share(app, "--fail-max", bounds.max, "Likewise for each relative error: --fail-max 12%");
  app.add_option("--fail-staleness", bounds.staleness,
                 "Likewise for each mean staleness's difference, in updates")
      ->check(CLI::NonNegativeNumber)
      ->type_name("UPDATES");
  app.add_option("--fail-ks", bounds.distance,
                 "Likewise for each Kolmogorov-Smirnov distance of staleness")
      ->check(CLI::NonNegativeNumber)
      ->type_name("D");
  app.add_option(
         "--fail-accuracy", bounds.accuracy,
         "Likewise if accuracy is more points off on average over the runs of a setting, or "
         "a verdict (diverges or not) is wrong: --fail-accuracy 2")
      ->check(CLI::NonNegativeNumber)
      ->type_name("POINTS");
}

void add_validate(CLI::App& app, ValidateCommand& command) {
  CLI::App* validate = app.add_subcommand("validate", "Predictions beside real measurements");
  validate->add_option("FILES", command.files,
                       "Files of cases (YAML), or folders with some; none: what is shipped");
  validate
      ->add_option("--metric", command.metrics,
                   "Compare only this key of the report: --metric step_time_s (repeatable)")
      ->type_name("KEY")
      ->allow_extra_args(false);
  validate->add_option("--format", command.format, "table, json, csv or markdown")
      ->check(one_of({"table", "json", "csv", "markdown"}))
      ->type_name("FORMAT");
  validate->add_option("--output", command.output, "Write the table to this file")
      ->type_name("FILE");
  validate->add_option("--jobs", command.jobs, "Predictions side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  add_html(*validate, command.html);
  add_bounds(*validate, command.bounds);
  validate->add_flag("--live", command.live,
                     "Measure every case anew on this machine first (./rehearse, as root)");
  validate->add_flag("--quiet", command.quiet, "No progress line");
  add_color(*validate, command.color);
  validate->callback([&command] { validate_command(command); });
}

void add_format(CLI::App& app, std::string& format) {
  app.add_option("--format", format, "table, json or csv")
      ->check(one_of({"table", "json", "csv"}))
      ->type_name("FORMAT");
}

/// Where a sweep runs.
void add_places(CLI::App& sweep, SweepCommand& command) {
  sweep.add_option("--jobs", command.jobs, "Simulations side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  sweep
      .add_option_function<std::string>(
          "--timeout", [&](const std::string& text) { command.timeout = parse_timeout(text); },
          "Of each simulation: --timeout 10min")
      ->check(a_timeout())
      ->type_name("TIME");
  sweep
      .add_option_function<std::string>(
          "--memory", [&](const std::string& text) { command.memory = parse_memory(text); },
          "Of each simulation, and of each of those for its intervals: --memory 4GiB")
      ->check(a_memory())
      ->type_name("SIZE");
  CLI::Option* shard =
      sweep
          .add_option_function<std::string>(
              "--shard", [&](const std::string& text) { command.shard = parse_shard(text); },
              "Only every n-th point, from the i-th on: --shard 2/8; collect merges")
          ->check(a_shard())
          ->type_name("I/N");
  sweep.add_option("--launcher", command.launcher, "local, or slurm: an array job of shards")
      ->check(one_of({"local", "slurm"}))
      ->excludes(shard)
      ->type_name("NAME");
  sweep.add_option("--tasks", command.tasks, "Of the array job; else a point each, at most 64")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sweep
      .add_option("--sbatch", command.slurm_options,
                  "An option of sbatch: --sbatch=--partition=cpu (repeatable)")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  sweep.add_flag("!--no-wait", command.wait, "Only submit the array job");
}

void add_sweep(CLI::App& app, SweepCommand& command) {
  CLI::App* sweep = app.add_subcommand("sweep", "Predict every point of a study");
  sweep->add_option("STUDY", command.study, "The study file (YAML)")->required();
  sweep
      ->add_option("--set", command.overrides,
                   "Replace a value of the study's scenario (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_format(*sweep, command.format);
  sweep->add_option("--output", command.output, "Keep results in this folder; else STUDY.results")
      ->type_name("FOLDER");
  sweep->add_option("--cache", command.cache, "A file of results that studies share")
      ->type_name("FILE");
  add_places(*sweep, command);
  CLI::Option* resume =
      sweep->add_flag("--resume", command.resume,
                      "Only go on with results that are there (without it, too, they are kept)");
  sweep->add_flag("--fresh", command.fresh, "Begin anew")->excludes(resume);
  sweep->add_flag("--quiet", command.quiet, "No progress bar");
  CLI::Option* html = add_html(*sweep, command.html);
  sweep->add_flag("--dry-run", command.dry_run, "Print the points, and stop")->excludes(html);
  add_color(*sweep, command.color);
  sweep->callback([&command] { sweep_command(command); });
}

void add_plan(CLI::App& app, PlanCommand& command) {
  CLI::App* plan = app.add_subcommand("plan", "Search a study for the best choice");
  plan->add_option("PLAN", command.plan, "The plan file (YAML)")->required();
  plan->add_option("--set", command.overrides,
                   "Replace a value of the plan's scenario (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_format(*plan, command.format);
  plan->add_option("--output", command.output, "Keep results in this folder; else PLAN.plan")
      ->type_name("FOLDER");
  plan->add_option("--jobs", command.jobs, "Simulations side by side; else one per core")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  plan->add_option("--top", command.top, "Of the ranking, print so many; else 10")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  plan->add_flag("--fresh", command.fresh, "Begin anew");
  plan->add_flag("--quiet", command.quiet, "No progress bar");
  CLI::Option* html = add_html(*plan, command.html);
  plan->add_flag("--dry-run", command.dry_run, "Print the candidates and their bounds, and stop")
      ->excludes(html);
  add_color(*plan, command.color);
  plan->callback([&command] { plan_command(command); });
}

void add_collect(CLI::App& app, CollectCommand& command) {
  CLI::App* collect = app.add_subcommand("collect", "Bring the results of shards together");
  collect->add_option("OUTPUT", command.output, "The folder of the whole study")->required();
  collect->add_option("INPUTS", command.inputs,
                      "Folders or files of results; none: the shards in OUTPUT");
  add_format(*collect, command.format);
  add_html(*collect, command.html);
  collect->add_flag("--quiet", command.quiet, "Only the results");
  add_color(*collect, command.color);
  collect->callback([&command] { collect_command(command); });
}

/// Parses the command line and runs the subcommand that it names.
ExitCode run_command_line(int argc, char** argv) {
  CLI::App app("Rehearse a training run before renting the cluster.", "rehearse");
  app.set_version_flag("--version", "rehearse " REHEARSE_VERSION);
  app.require_subcommand(1);
  RunCommand run;
  ExplainCommand explain;
  ForecastCommand forecast;
  std::string what;
  ImportCommand import;
  ValidateCommand validate;
  SweepCommand sweep;
  PlanCommand plan;
  CollectCommand collect;
  add_run(app, run);
  add_explain(app, explain);
  add_forecast(app, forecast);
  add_list(app, what);
  add_import(app, import);
  add_validate(app, validate);
  add_sweep(app, sweep);
  add_plan(app, plan);
  add_collect(app, collect);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return static_cast<ExitCode>(app.exit(wrong));  // --help
    throw InputError(usage_message(app, wrong, argc, argv));
  }
  return ExitCode::success;
}

}  // namespace
}  // namespace rehearse

int main(int argc, char** argv) {
  return rehearse::run_program([&] { return rehearse::run_command_line(argc, argv); });
}
