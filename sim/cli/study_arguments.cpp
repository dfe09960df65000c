// The command lines of `sweep`, `plan` and `collect`.
#include "cli/arguments.hpp"
#include "cli/command_line.hpp"
#include "cli/shared_options.hpp"
#include "cli/typed_question.hpp"

namespace rehearse {
namespace {

/// Where a sweep runs.
void add_places(CLI::App& sweep, SweepCommand& command) {
  add_jobs(sweep, command.jobs);
  sweep
      .add_option_function<std::string>(
          "--timeout", [&](const std::string& text) { command.timeout = parse_timeout(text); },
          "Of each simulation: --timeout 10min")
      ->check(a_timeout())
      ->type_name("TIME");
  sweep
      .add_option_function<std::string>(
          "--memory", [&](const std::string& text) { command.memory = parse_memory(text); },
          "Of each simulation, also of those for its intervals: 4GiB")
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

}  // namespace

void add_sweep(CLI::App& app, SweepCommand& command) {
  CLI::App* sweep = app.add_subcommand("sweep", "Predict every point of a study");
  sweep->add_option("STUDY", command.study, "The study file (YAML)")->required();
  add_overrides(*sweep, command.overrides, "Replace a value of the study's scenario (repeatable)");
  add_format(*sweep, command.format);
  sweep->add_option("--output", command.output, "Keep results in this folder; else STUDY.results")
      ->type_name("FOLDER");
  sweep->add_option("--cache", command.cache, "A file of results that studies share")
      ->type_name("FILE");
  add_places(*sweep, command);
  CLI::Option* resume =
      sweep->add_flag("--resume", command.resume,
                      "Insist on results that are there (they are kept anyway)");
  sweep->add_flag("--fresh", command.fresh, "Begin anew")->excludes(resume);
  CLI::Option* fail_unless = add_fail_unless(*sweep, command.fail_unless);
  sweep->add_flag("--quiet", command.quiet, "No progress bar");
  CLI::Option* html = add_html(*sweep, command.html);
  sweep->add_flag("--dry-run", command.dry_run, "Print the points, and stop")
      ->excludes(html)
      ->excludes(fail_unless);
  add_color(*sweep, command.color);
  sweep->callback([&command] { sweep_command(command); });
}

void add_plan(CLI::App& app, PlanCommand& command) {
  CLI::App* plan = app.add_subcommand("plan", "Search a study for the best choice");
  const auto question = add_typed_plan(*plan, command.plan);
  add_overrides(*plan, command.overrides, "Replace a value of the plan's scenario (repeatable)");
  add_format(*plan, command.format);
  plan->add_option("--output", command.output, "Keep results in this folder; else PLAN.plan,\nor MODEL_on_NxCLUSTER.plan")
      ->type_name("FOLDER");
  add_jobs(*plan, command.jobs);
  plan->add_option("--top", command.top, "Of the ranking, print so many; else 10")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  plan->add_flag("--fresh", command.fresh, "Begin anew");
  plan->add_flag("--quiet", command.quiet, "No progress bar");
  CLI::Option* html = add_html(*plan, command.html);
  plan->add_flag("--dry-run", command.dry_run, "Print the candidates and their bounds, and stop")
      ->excludes(html);
  add_color(*plan, command.color);
  plan->callback([&command, question] {
    if (command.plan.empty() && command.output.empty())
      command.output = name_of(*question) + ".plan";
    command.plan = asked_plan(*question, command.plan);
    plan_command(command);
  });
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

}  // namespace rehearse
