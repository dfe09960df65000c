// `rehearse run SCENARIO`: simulates one scenario and prints its report.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/progress_line.hpp"
#include "cli/commands.hpp"
#include "cli/import_config.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "html/html.hpp"
#include "html/run_page.hpp"
#include "predict/measured_job.hpp"
#include "predict/memory_advice.hpp"
#include "predict/run_views.hpp"
#include "predict/simulated_updates.hpp"
#include "report/memory_verdict.hpp"
#include "rollout/rl_step.hpp"
#include "view/views.hpp"

namespace rehearse::inline cli {
namespace {

struct RunCommand {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  ///< "cluster.nodes=8", in order
  AnswerOptions answer;
  std::filesystem::path trace;            ///< Chrome trace; empty: none
  std::filesystem::path updates;          ///< a parameter server's updates; empty: none
  int traces = 1;                         ///< of updates, run.seed and so many less one after it
  std::filesystem::path memory_snapshot;  ///< of rank 0, for PyTorch's memory_viz; empty: none
  bool advice = false;                    ///< single changes that take less memory, even if it fits
  std::string fail_unless;                ///< "fits" or "may_fit"; empty: nothing is asked
  bool intervals = true;
  bool dry_run = false;
  bool replay = false;  ///< the launcher's: this program refuses it
};

/// Where trace k is written: `updates_2.csv` beside `updates.csv`, which is trace 0.
std::filesystem::path trace_file(const std::filesystem::path& first, std::size_t trace) {
  return first.parent_path() /
         fmt::format("{}_{}{}", first.stem().string(), trace, first.extension().string());
}

void simulate_further_traces(const Scenario& scenario, const RunCommand& command) {
  ProgressLine line(command.answer.quiet);
  const auto further = static_cast<std::size_t>(command.traces) - 1;
  const std::vector<std::string> updates = further_updates(
      command.scenario, command.overrides, scenario.run.seed, further, [&](std::size_t done) {
        line.show(fmt::format("simulating traces: {} of {}", done, further));
      });
  for (std::size_t i = 0; i < further; ++i)
    write_file(trace_file(command.updates, i + 1), updates[i]);
}

Prediction simulate_with_progress(const Scenario& scenario, const RunCommand& command) {
  ProgressLine line(command.answer.quiet);
  return predict_with_advice(
      scenario,
      {.file = command.scenario,
       .overrides = command.overrides,
       .always = command.advice,
       .intervals = command.intervals,
       .tried =
           [&](std::size_t done, std::size_t all) {
             line.show(fmt::format("trying changes: {} of {}", done, all));
           },
       .progress =
           [&](double share) { line.show(fmt::format("simulating: {:3.0f} %", 100 * share)); }});
}

void write_snapshot(const Scenario& scenario, const Prediction& prediction,
                    const std::filesystem::path& file) {
  const std::optional<std::string> snapshot = rank_0_snapshot(scenario, prediction);
  if (!snapshot)
    throw InputError(
        "rehearse: error: --memory-snapshot: CPUs have no caching allocator to look into\n"
        "remedy: leave it out, or run on GPUs");
  write_file(file, *snapshot);
}

void check_fits(const RunCommand& command, const std::optional<MemoryFit>& known) {
  const MemoryFit fit = known.value_or(MemoryFit{});
  if (command.fail_unless.empty() || meets(fit.verdict, command.fail_unless)) return;
  throw Error(ExitCode::refuted,
              fmt::format("rehearse: --fail-unless {}: {}: {}", command.fail_unless,
                          to_string(fit.verdict), details(fit)));
}

Scenario read_run(const RunCommand& command) {
  if (command.replay) {
    throw InputError(
        "rehearse: error: --replay trains with the calibrator, which this program is not\n"
        "remedy: run ./rehearse run SCENARIO --replay ... from the sources, or give the file of "
        "--updates to rehearse-calibrate replay");
  }
  Scenario scenario = read_question(command.scenario, command.overrides);
  if (!command.updates.empty()) {
    check_has_updates(scenario);
    scenario.run.until = RunUntil::steps;
  }
  check_outputs({{"--output", command.answer.output},
                 {"--html", command.answer.html},
                 {"--trace", command.trace},
                 {"--updates", command.updates},
                 {"--memory-snapshot", command.memory_snapshot}});
  if (command.traces == 1 || !scenario.run.replications.several()) return scenario;
  throw InputError(
      fmt::format("{}: error: --traces: all of its runs count, and run.replications chooses one\n"
                  "remedy: leave one of the two out",
                  scenario.file));
}

/// The document, where it asks for a step of post-training.
std::shared_ptr<const Document> rl_document(const RunCommand& command) {
  const auto document = Document::load(command.scenario);
  const auto asked =
      command.overrides.empty() ? document : document->with_overrides(command.overrides);
  return asks_for_rl(*asked) ? asked : nullptr;
}

void run_rl(const Document& document, const RunCommand& command) {
  std::vector<std::string> others;
  for (const auto& [is_given, name] :
       {std::pair(command.advice, "--advice"), std::pair(command.replay, "--replay"),
        std::pair(!command.trace.empty(), "--trace"),
        std::pair(!command.updates.empty(), "--updates"),
        std::pair(!command.memory_snapshot.empty(), "--memory-snapshot")})
    if (is_given) others.emplace_back(name);
  if (!others.empty())
    throw InputError(
        fmt::format("rehearse: error: of a step of post-training there is a report alone\n"
                    "remedy: leave out {}",
                    fmt::join(others, ", ")));
  check_outputs({{"--output", command.answer.output}, {"--html", command.answer.html}});
  const RlQuestion question = read_rl_question(document);
  if (command.dry_run) {
    const auto text = [&](int, bool) {
      return outline(question.trainer, machine_of(question.trainer));
    };
    return write_answer({.table = text, .json = {}}, command.answer);
  }
  const RlReport report = rl_step(question, play_trainer(question, command.intervals));
  const std::vector<std::string> none;
  const auto& defaults = command.answer.verbose ? question.trainer.assumptions : none;
  write_answer({.table = [&](int, bool) { return to_terminal(report, defaults); },
                .json = [&] { return to_json(report); },
                .csv = [&] { return to_csv(report); },
                .page = [&] { return to_html(to_json(report)); }},
               command.answer);
  const PhaseMemory* const tightest = report.tightest();
  check_fits(command, tightest ? std::optional(tightest->fit) : std::nullopt);
}

void run(const RunCommand& command) {
  if (const auto document = rl_document(command)) return run_rl(*document, command);
  const Scenario scenario = read_run(command);
  if (command.dry_run) {
    const auto text = [&](int, bool) { return outline(scenario, machine_of(scenario)); };
    return write_answer({.table = text, .json = {}}, command.answer);
  }
  if (command.traces > 1) simulate_further_traces(scenario, command);
  const Prediction prediction = simulate_with_progress(scenario, command);
  const Report& report = prediction.report;
  if (!command.trace.empty()) write_file(command.trace, chrome_trace(scenario, prediction));
  if (!command.memory_snapshot.empty())
    write_snapshot(scenario, prediction, command.memory_snapshot);
  if (!command.updates.empty())
    write_file(command.updates, to_csv(updates_of(scenario, prediction)));
  const Detail detail = command.answer.verbose ? Detail::all : Detail::brief;
  write_answer(
      {.table = [&](int width, bool color) { return to_terminal(report, width, color, detail); },
       .json = [&] { return to_json(report); },
       .csv = [&] { return to_csv({report}); },
       .page = [&] { return run_page(scenario, prediction); }},
      command.answer);
  check_fits(command, memory_fit(report));
}

/// Assignments, so that the report does not call them defaults and errors name the key.
void add_assignments(CLI::App& app, std::vector<std::string>& overrides) {
  const auto assign = [&overrides](const std::string& key) {
    return [&overrides, key](const std::string& value) { overrides.push_back(key + value); };
  };
  app.add_option_function<std::string>("--seed", assign("run.seed="), "Seed of the random streams")
      ->type_name("N");
  app.add_flag_callback(
      "--ideal",
      [&overrides] {
        overrides.insert(overrides.end(), {"run.speed_spread=0", "run.jitter=none"});
      },
      "GPUs that are alike and never slow down: the best case, not\nthe usual one");
  app.add_option_function<std::string>("--fidelity", assign("run.fidelity="),
                                       "hop, flow, folded or auto")
      ->check(one_of({"hop", "flow", "folded", "auto"}))
      ->type_name("NAME");
}

}  // namespace

void add_run(CLI::App& app) {
  const auto command = std::make_shared<RunCommand>();
  CLI::App& run_app = *app.add_subcommand("run", "Predict one training run");
  const auto question = add_typed_question(run_app, command->scenario);
  add_overrides(run_app, command->overrides, "Replace a value: --set cluster.nodes=8 (repeatable)");
  add_like(run_app, command->overrides);
  add_price(run_app, command->overrides);
  std::vector<CLI::Option*> answers{add_format(run_app, command->answer)};
  add_output(run_app, command->answer, "Write the report to this file");
  answers.push_back(
      add(run_app, "--trace", command->trace, "Write a trace that Perfetto opens", "FILE"));
  CLI::Option* updates = add(run_app, "--updates", command->updates,
                             "Write a parameter server's updates, for a replay (CSV)", "FILE");
  answers.push_back(updates);
  add_count(run_app, "--traces", command->traces,
            "Simulate so many seeds from run.seed on, and write\n"
            "the updates of each: updates.csv, updates_1.csv, ...",
            1, 1000)
      ->needs(updates)
      ->type_name("M");
  run_app.add_flag("--replay", command->replay,
                   "Then train a real network with the updates (./rehearse\n"
                   "from the sources). What follows goes to\n`rehearse-calibrate replay`");
  answers.push_back(add(run_app, "--memory-snapshot", command->memory_snapshot,
                        "Write rank 0's memory for https://pytorch.org/memory_viz", "FILE"));
  answers.push_back(add_html(run_app, command->answer));
  add_assignments(run_app, command->overrides);
  run_app.add_flag("--quiet", command->answer.quiet, "No progress line");
  answers.push_back(add_fail_unless(run_app, command->fail_unless));
  run_app.add_flag("!--no-intervals", command->intervals,
                   "Best estimates alone, and the interval of memory: several\ntimes as fast");
  answers.push_back(run_app.add_flag("--advice", command->advice,
                                     "Look for single changes that take less memory, each\n"
                                     "with its price. Done anyway where memory does not suffice"));
  CLI::Option* dry_run =
      run_app.add_flag("--dry-run", command->dry_run, "Print what would be simulated, and stop");
  for (CLI::Option* answer : answers) dry_run->excludes(answer);
  add_color(run_app, command->answer);
  add_verbose(run_app, command->answer);
  run_app.footer(
      "Examples:\n"
      "  rehearse run toy_ddp                            a shipped scenario, by its name\n"
      "  rehearse run scenario.yaml --set cluster.nodes=8 -v\n"
      "  rehearse run --model llama_3_8b --on 2xaws_p5 --tokens 15B --html page.html\n"
      "  generate | rehearse run - --format json");
  run_app.callback([command, question, &run_app] {
    command->scenario = is_typed(*question, command->scenario, "SCENARIO")
                            ? kept_scenario(*question)
                            : scenario_of(input_file(command->scenario), *question, run_app);
    run(*command);
  });
}

}  // namespace rehearse::inline cli
