// `rehearse plan PLAN`: searches what a study may choose from, and ranks what is feasible.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/progress_line.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "config/whole_file.hpp"
#include "html/html.hpp"
#include "planner/layouts/layout_simulator.hpp"
#include "planner/plan_view.hpp"
#include "planner/point_text.hpp"
#include "planner/typed_question.hpp"
#include "rollout/rl_plan.hpp"
#include "study/collect.hpp"
#include "study/progress_bar.hpp"
#include "study/study_folder.hpp"
#include "study/take_up.hpp"

namespace rehearse::inline cli {
namespace {

struct PlanCommand {
  std::filesystem::path plan;  ///< empty: a typed question
  TypedQuestion question;
  std::vector<std::string> overrides;  ///< of its scenario, "train.epochs=3"
  AnswerOptions answer;                ///< its output a folder; empty: PLAN.plan, here
  int jobs = 0;                        ///< simulations side by side; 0: one per core
  int top = 0;                         ///< of the ranking; 0: ten in a table, else all
  bool fresh = false;                  ///< without what is there
  bool dry_run = false;
  bool hand_out = false;  ///< others simulate the candidates
  std::string points;     ///< simulate these for a plan that hands them out; empty: a whole plan

  std::size_t rows_of_table() const { return static_cast<std::size_t>(top > 0 ? top : 10); }
  ChildLimits limits() const {
    return {.jobs = jobs_or_cores(jobs), .stop = [] { return stop_signal() != 0; }};
  }
};

PreparedPlan prepared(const PlanCommand& command, Plan plan, const PlanSimulator& with) {
  ProgressBar bar(command.answer.quiet);
  const auto kept = command.dry_run || command.fresh ? std::filesystem::path()
                                                     : results_file(command.answer.output);
  return prepare_plan(std::move(plan), with, kept, command.limits(),
                      [&](const SweepProgress& progress) { bar.show(progress); });
}

/// Says points in a line on standard output, and takes their outcomes from the files of results
/// that standard input names, one a line, until an empty line.
void hand_out(const PreparedStudy& study, const std::vector<std::size_t>& points,
              ResultStore& store) {
  std::vector<Point> chosen;
  for (const std::size_t i : points) chosen.push_back(study.study.points[i]);
  write_stdout(points_text(chosen) + "\n");
  for (std::string file; std::getline(std::cin, file);) {
    if (file.empty()) return;
    const ResultStore results(file);
    for (const std::size_t i : points) {
      const std::string& key = study.points[i].key;
      if (const auto outcome = results.find(key)) store.store(key, *outcome);
    }
  }
  fail_as_stopped(store.file().string() + " holds what has come");
}

/// `--points`: what a plan elsewhere has handed out, into the folder.
void run_points(const PlanCommand& command, Plan plan, const PlanSimulator& with) {
  plan.study.points = points_from(command.points, plan.study);
  const PreparedStudy prepared = prepare(std::move(plan.study), with.simulator);
  LockedStore store(results_file(command.answer.output), {}, command.fresh);
  take_up(*store, prepared.identity, prepared.points, true);
  sweep_into(*store, prepared, with.simulator,
             {.folder = command.answer.output,
              .cache = {},
              .shard = {},
              .limits = command.limits(),
              .quiet = command.answer.quiet});
}

PlanResult searched(const PlanCommand& command, PreparedPlan plan, const PlanSimulator& with,
                    ResultStore& store) {
  ProgressBar bar(command.answer.quiet);
  std::function<void(const PreparedStudy&, const std::vector<std::size_t>&)> elsewhere;
  if (command.hand_out)
    elsewhere = [&](const PreparedStudy& study, const std::vector<std::size_t>& points) {
      hand_out(study, points, store);
    };
  return run_plan(std::move(plan), with, store,
                  {.limits = command.limits(),
                   .shard = {},
                   .progress = [&](const SweepProgress& progress) { bar.show(progress); },
                   .elsewhere = elsewhere});
}

/// What could not be kept; the answer was printed all the same.
void check_kept(ResultStore& store) {
  if (store.flush().empty()) return;
  throw MissingError(store.trouble() + "\nremedy: make room; the same command goes on from there");
}

void print_result(const PlanResult& result, const PlanCommand& command) {
  const auto table = [&](int width, bool color) {
    return plan_table(result, {.top = command.rows_of_table(),
                               .width = static_cast<std::size_t>(width),
                               .color = color,
                               .detail = command.answer.verbose ? Detail::all : Detail::brief});
  };
  print_answer({.table = table,
                .json = [&] { return plan_json(result); },
                .csv = [&] { return plan_csv(result); }},
               command.answer);
}

/// A scenario with a section `rl:`, whose splits of GPUs are tried; null: another plan.
std::shared_ptr<const Document> rl_scenario(const PlanCommand& command) {
  if (command.plan.empty()) return nullptr;
  const auto document = Document::load(command.plan);
  if (!asks_for_rl(*document)) return nullptr;
  return command.overrides.empty() ? document : document->with_overrides(command.overrides);
}

void run_rl_plan(const Document& document, const PlanCommand& command) {
  if (command.hand_out || !command.points.empty() || command.dry_run ||
      !command.answer.html.empty())
    throw InputError(
        "rehearse plan: error: splits of post-training are played here, in one go\n"
        "remedy: leave out --hand-out, --points, --dry-run and --html");
  ProgressLine line(command.answer.quiet);
  const RlPlan plan = rl_plan(document, [&](std::size_t done, std::size_t all) {
    line.show(fmt::format("splits: {} of {}", done, all));
  });
  std::filesystem::create_directories(command.answer.output);
  write_whole_file(command.answer.output / "plan.json", to_json(plan));
  AnswerOptions answer = command.answer;
  answer.output.clear();
  RlPlan shown = plan;
  if (command.top > 0)
    shown.rows.resize(std::min(shown.rows.size(), static_cast<std::size_t>(command.top)));
  print_answer({.table = [&](int, bool) { return to_table(plan, command.rows_of_table()); },
                .json = [&] { return to_json(shown); },
                .csv = [&] { return to_csv(shown); }},
               answer);
  if (plan.rows.empty() || !plan.rows.front().report)
    throw Error(ExitCode::refuted, "rehearse plan: no split of these GPUs is feasible");
  const RlReport& best = *plan.rows.front().report;
  if (best.fits()) return;
  const bool trains = best.tightest()->phase == "training";
  throw Error(ExitCode::refuted,
              fmt::format("rehearse plan: no split of these GPUs fits\nremedy: {}",
                          trains ? "model.activation_checkpointing: per_unit, a smaller "
                                   "model.batch_per_gpu, or more nodes"
                                 : "rl.generator.trainer_sleeps: true, or more nodes"));
}

/// An Error (ExitCode::refuted) where nothing is feasible.
void run_plan_file(const PlanCommand& command) {
  if (const auto document = rl_scenario(command)) return run_rl_plan(*document, command);
  catch_stop_signals();
  Plan read = command.plan.empty() ? typed_plan(command.question, command.overrides)
                                   : read_plan(command.plan, command.overrides);
  refuse_common_mistake(read);
  const PlanSimulator with = simulator_for(read);
  if (!command.points.empty()) return run_points(command, std::move(read), with);
  PreparedPlan plan = prepared(command, std::move(read), with);
  if (command.dry_run) return write_stdout(plan_outline(plan));
  const std::filesystem::path folder = command.answer.output, file = results_file(folder);
  const std::filesystem::path answer = folder / "plan.json";
  check_outputs({{"--html", command.answer.html}}, {command.plan, file, answer});
  LockedStore store(file, answer, command.fresh);
  take_up(*store, plan.study.identity, plan.study.points, command.answer.quiet);
  const PlanResult result = searched(command, std::move(plan), with, *store);
  const std::string json = plan_json(result);
  write_whole_file(answer, json);
  if (!command.answer.html.empty()) write_file(command.answer.html, to_html(json));
  if (!command.hand_out) print_result(result, command);
  check_kept(*store);
  if (!result.choice)
    throw Error(ExitCode::refuted, fmt::format("rehearse: none of {} candidates is feasible",
                                               result.prepared.candidates.size()));
  if (!command.answer.quiet) tell(fmt::format("results in {}\n", folder.string()));
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto command = std::make_shared<PlanCommand>();
  CLI::App& plan = *app.add_subcommand("plan", "Search a study for the best choice");
  const auto question = add_typed_plan(plan, command->plan);
  add_overrides(plan, command->overrides, "Replace a value of the plan's scenario (repeatable)");
  add_like(plan, command->overrides);
  add_price(plan, command->overrides);
  add_format(plan, command->answer);
  add(plan, "--output", command->answer.output,
      "Keep results in this folder; else PLAN.plan,\nor MODEL_on_NxCLUSTER.plan", "FOLDER");
  add_jobs(plan, command->jobs);
  add_count(plan, "--top", command->top, "Of the ranking, print so many; else 10");
  plan.add_flag("--fresh", command->fresh, "Begin anew");
  plan.add_flag("--quiet", command->answer.quiet, "No progress bar");
  CLI::Option* html = add_html(plan, command->answer);
  CLI::Option* dry_run = plan.add_flag("--dry-run", command->dry_run,
                                       "Print the candidates and their bounds, and stop")
                             ->excludes(html);
  plan.add_flag("--hand-out", command->hand_out,
                "Others simulate: print candidates, a line at a time, and read the\nfiles of their "
                "results, a line each, until an empty one")
      ->excludes(dry_run);
  add(plan, "--points", command->points,
      "Only simulate these for a plan that hands out, into the folder", "TEXT")
      ->excludes(dry_run)
      ->excludes(html);
  add_color(plan, command->answer);
  add_verbose(plan, command->answer);
  plan.footer(
      "Examples:\n"
      "  rehearse plan --model llama_3_8b --on 4xaws_p5 --tokens 15B\n"
      "  rehearse plan cheapest_convnext --html plan.html");
  plan.callback([command, question] {
    const bool typed = is_typed(*question, command->plan, "PLAN");
    if (!typed) command->plan = input_file(command->plan, {"plans", "post_training"});
    if (command->answer.output.empty())
      command->answer.output =
          (typed ? name_of(*question) : command->plan.stem().string()) + ".plan";
    if (typed) command->question = *question;
    command->question.equal_loss = std::ranges::any_of(
        command->overrides, [](const auto& one) { return one.starts_with("train.like"); });
    run_plan_file(*command);
  });
}

}  // namespace rehearse::inline cli
