// The command lines of `run`, `check`, `explain`, `forecast` and `curves`.
#include "cli/arguments.hpp"
#include "cli/command_line.hpp"
#include "cli/shared_options.hpp"
#include "cli/typed_question.hpp"

namespace rehearse {
namespace {

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

}  // namespace

void add_run(CLI::App& app, RunCommand& command) {
  CLI::App* run = app.add_subcommand("run", "Predict one training run");
  const auto question = add_typed_question(*run, command.scenario, "SCENARIO",
                                           "The scenario file (YAML)");
  add_overrides(*run, command.overrides, "Replace a value: --set cluster.nodes=8 (repeatable)");
  CLI::Option* format = add_format(*run, command.format);
  run->add_option("--output", command.output, "Write the report to this file")->type_name("FILE");
  CLI::Option* trace =
      run->add_option("--trace", command.trace, "Write a trace that Perfetto opens")
          ->type_name("FILE");
  CLI::Option* updates = run->add_option("--updates", command.updates,
                                         "Write a parameter server's updates, for a replay (CSV)")
                             ->type_name("FILE");
  run->add_option("--traces", command.traces,
                  "Simulate so many seeds from run.seed on, and write\n"
                  "the updates of each: updates.csv, updates_1.csv, ...")
      ->needs(updates)
      ->check(CLI::Range(1, 1000))
      ->type_name("M");
  run->add_flag("--replay", command.replay,
                "Then train a real network with the updates (./rehearse\n"
                "from the sources). What follows goes to\n`rehearse-calibrate replay`");
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
  CLI::Option* fail_unless = add_fail_unless(*run, command.fail_unless);
  CLI::Option* advice = run->add_flag("--advice", command.advice,
                                      "Look for single changes that take less memory, each\n"
                                      "with its price. Done anyway where memory does not suffice");
  run->add_flag("--dry-run", command.dry_run, "Print what would be simulated, and stop")
      ->excludes(advice)
      ->excludes(fail_unless)
      ->excludes(format)
      ->excludes(trace)
      ->excludes(updates)
      ->excludes(snapshot)
      ->excludes(html);
  add_color(*run, command.color);
  run->callback([&command, question] {
    command.scenario = asked_scenario(*question, command.scenario);
    run_command(command);
  });
}

void add_check(CLI::App& app, CheckCommand& command) {
  CLI::App* check =
      app.add_subcommand("check", "Say all that is wrong in files, without a simulation");
  check
      ->add_option("FILES", command.files,
                   "Scenarios, studies, plans, clusters and profiles (YAML)")
      ->required();
  check->add_flag("--quiet", command.quiet, "Nothing about files without mistakes");
  check->callback([&command] { check_command(command); });
}

void add_explain(CLI::App& app, ExplainCommand& command) {
  CLI::App* explain =
      app.add_subcommand("explain", "What bounds a step, and what more of each resource buys");
  const auto question = add_typed_question(*explain, command.scenario, "SCENARIO",
                                           "The scenario file (YAML)");
  add_overrides(*explain, command.overrides, "Replace a value (repeatable)");
  explain
      ->add_option_function<std::string>(
          "--more", [&command](const std::string& text) { command.more = parse_share(text); },
          "How much more of each resource: --more 25%; else 10%")
      ->check(a_share_above_0())
      ->type_name("PERCENT");
  explain->add_option("--workers", command.workers, "Slow ranks to ask about, one by one; else 4")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  add_jobs(*explain, command.jobs);
  add_format(*explain, command.format, "table, json, or csv of what more buys");
  explain->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  explain->add_option("--trace", command.trace, "Write a step's trace with its critical path")
      ->type_name("FILE");
  add_html(*explain, command.html);
  explain->add_flag("--quiet", command.quiet, "No progress bar");
  add_color(*explain, command.color);
  explain->callback([&command, question] {
    command.scenario = asked_scenario(*question, command.scenario);
    explain_command(command);
  });
}

void add_forecast(CLI::App& app, ForecastCommand& command) {
  CLI::App* forecast =
      app.add_subcommand("forecast", "What staleness does to accuracy, from a few runs");
  forecast->add_option("CURVES", command.curves, "Curves of replays or real runs (JSON)")
      ->required();
  forecast->add_option("--scenario", command.scenario, "Simulate this for pace and staleness")
      ->type_name("FILE");
  add_overrides(*forecast, command.overrides, "Replace a value of the scenario (repeatable)");
  forecast->add_flag("--whole-run", command.whole_run,
                     "The scenario's steps are all, with their end");
  forecast
      ->add_option(
          "--staleness", command.staleness,
          "A mean (all updates as stale: near the edge the worst\n"
          "case), or counts of updates: 0:10,1:20,7:3")
      ->type_name("UPDATES");
  add_forecast_question(*forecast, command);
  forecast->add_flag("--best-bound", command.best_bound, "Compare staleness bounds, simulated");
  forecast->add_flag("--mitigations", command.mitigations, "Compare with what may help");
  add_jobs(*forecast, command.jobs);
  add_format(*forecast, command.format, "table, json, or csv of the curves");
  forecast->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  add_html(*forecast, command.html);
  add_color(*forecast, command.color);
  forecast->callback([&command] { forecast_command(command); });
}

void add_curves(CLI::App& app, CurvesCommand& command) {
  CLI::App* curves =
      app.add_subcommand("curves", "How runs end that differ by seed or order of updates alone");
  curves->add_option("CURVES", command.curves, "Curves of replays or real runs (JSON)")->required();
  add_format(*curves, command.format, "table, json, or csv of the runs");
  curves->add_option("--output", command.output, "Write to this file")->type_name("FILE");
  add_html(*curves, command.html);
  add_color(*curves, command.color);
  curves->callback([&command] { curves_command(command); });
}

}  // namespace rehearse
