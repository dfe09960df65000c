// `rehearse explain SCENARIO`: what bounds the step, and what would change it.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/import_config.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "explain/explain_scenario.hpp"
#include "explain/kernel_table.hpp"
#include "foreign/traces/kernel_comparison.hpp"
#include "html/html.hpp"
#include "predict/measured_job.hpp"
#include "study/progress_bar.hpp"

namespace rehearse::inline cli {
namespace {

struct ExplainCommand {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  ///< "cluster.nodes=8", in order
  AnswerOptions answer;
  std::filesystem::path trace;    ///< Chrome trace with the critical path; empty: none
  double more = 0.1;              ///< of each resource: 0.1 for 10 %
  bool kernels = false;           ///< the step's kernels in the place of what bounds it
  std::filesystem::path against;  ///< a trace that they are set beside; empty: none
  int workers = 4;                ///< slow ones that are asked about, one by one
  int jobs = 0;                   ///< simulations side by side; 0: one per core
};

ExplainedRun explained(const Scenario& scenario, const ExplainCommand& command) {
  ProgressBar bar(command.answer.quiet);
  return explain(scenario, {.questions = {.more = command.more,
                                          .workers = static_cast<std::size_t>(command.workers)},
                            .jobs = static_cast<std::size_t>(std::max(0, command.jobs)),
                            .progress = [&](std::size_t done, std::size_t all) {
                              bar.show({done, all, 0, done, all});
                            }});
}

void show_kernels(const KernelTable& table, const ExplainCommand& command) {
  const Detail detail = command.answer.verbose ? Detail::all : Detail::brief;
  write_answer(
      {.table = [&](int width, bool color) { return to_terminal(table, width, color, detail); },
       .json = [&] { return to_json(table); },
       .csv = [&] { return to_csv(table); },
       .page = [&] { return to_html(to_json(table)); }},
      command.answer);
}

void show_kernels_against(const KernelTable& table, const ExplainCommand& command) {
  const KinetoTrace trace = read_kineto(
      command.against, [](double) {}, KinetoPart::shapes);
  const KernelComparison both = compare_kernels(table, trace);
  const Detail detail = command.answer.verbose ? Detail::all : Detail::brief;
  write_answer(
      {.table = [&](int width, bool color) { return to_terminal(both, width, color, detail); },
       .json = [&] { return to_json(both); },
       .csv = [&] { return to_csv(both); },
       .page = [&] { return to_html(to_json(both)); }},
      command.answer);
}

void show_explanation(const ExplainCommand& command) {
  if (!command.kernels && !command.against.empty())
    throw CLI::RequiresError("--against", "--kernels");
  if (command.kernels && !command.trace.empty()) throw CLI::ExcludesError("--kernels", "--trace");
  const Scenario scenario = read_question(command.scenario, command.overrides);
  check_outputs({{"--output", command.answer.output},
                 {"--html", command.answer.html},
                 {"--trace", command.trace}});
  if (command.kernels) {
    const KernelTable table = kernel_table(scenario);
    if (command.against.empty()) return show_kernels(table, command);
    return show_kernels_against(table, command);
  }
  const ExplainedRun run = explained(scenario, command);
  const Explanation& told = run.explanation;
  if (!command.trace.empty()) write_file(command.trace, chrome_trace(scenario, run));
  const Detail detail = command.answer.verbose ? Detail::all : Detail::brief;
  write_answer(
      {.table = [&](int width, bool color) { return to_terminal(told, width, color, detail); },
       .json = [&] { return to_json(told); },
       .csv = [&] { return to_csv(told); },
       .page = [&] { return to_html(to_json(told)); }},
      command.answer);
}

}  // namespace

void add_explain(CLI::App& app) {
  const auto command = std::make_shared<ExplainCommand>();
  CLI::App& explain_app =
      *app.add_subcommand("explain", "What bounds a step, and what more of each resource buys");
  const auto question = add_typed_question(explain_app, command->scenario);
  add_overrides(explain_app, command->overrides, "Replace a value (repeatable)");
  add_price(explain_app, command->overrides);
  add_parsed(explain_app, "--more", command->more, parse_share_above_0,
             "How much more of each resource: --more 25%; else 10%", "PERCENT");
  add_count(explain_app, "--workers", command->workers,
            "Slow ranks to ask about, one by one; else 4", 0);
  add_jobs(explain_app, command->jobs);
  explain_app.add_flag("--kernels", command->kernels,
                       "The step's kernels by operator, in the place of what bounds it");
  add(explain_app, "--against", command->against,
      "With --kernels: beside those of a trace of torch.profiler\n(record_shapes=True)", "FILE");
  add_answer(explain_app, command->answer, "table, json, or csv of what more buys");
  add(explain_app, "--trace", command->trace, "Write a step's trace with its critical path",
      "FILE");
  explain_app.add_flag("--quiet", command->answer.quiet, "No progress bar");
  add_verbose(explain_app, command->answer);
  explain_app.footer(
      "Examples:\n"
      "  rehearse explain p5_llama7b_fsdp\n"
      "  rehearse explain scenario.yaml --more 25% --html why.html");
  explain_app.callback([command, question, &explain_app] {
    command->scenario = is_typed(*question, command->scenario, "SCENARIO")
                            ? kept_scenario(*question)
                            : scenario_of(input_file(command->scenario), *question, explain_app);
    show_explanation(*command);
  });
}

}  // namespace rehearse::inline cli
