#include "explain/explain_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "engine/engine.hpp"
#include "predict/predict.hpp"
#include "predict/report_of.hpp"
#include "predict/wire.hpp"
#include "report/compute_grounds.hpp"
#include "report/measures.hpp"
#include "report/memory_verdict.hpp"
#include "report/run_facts.hpp"
#include "view/views.hpp"

namespace rehearse::inline explanation {
namespace {

/// What a path is followed through: all operations of all ranks, at some 40 bytes each.
constexpr std::size_t kMostSpans = 8'000'000;

RunFacts facts_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace,
                  const std::string& fidelity) {
  return {.scenario = scenario,
          .schedule = schedule,
          .trace = trace,
          .fidelity = fidelity,
          .provenance = "",
          .assumptions = {},
          .outside_calibration = {}};
}

/// Once per process.
Trace play(const Scenario& scenario, const Machine& machine, std::size_t span_limit,
           std::vector<CollectiveAnswer>* answers = nullptr) {
  return run(machine, {.answers = answers,
                       .span_limit = span_limit,
                       .enough = until_steady(scenario, machine.schedule)});
}

void check_size(const Scenario& scenario, const Machine& machine) {
  std::size_t spans = 0;
  for (std::size_t r = 0; r < machine.schedule.ranks.size(); ++r)
    spans += machine.schedule.program_of(RankId(r)).ops.size() * machine.schedule.iterations;
  if (spans <= kMostSpans) return;
  throw InputError(
      fmt::format("{}: error: {} operations are too many to follow (at most {})\nremedy: fewer "
                  "run.steps, fewer "
                  "ranks, or fidelity: folded where they are alike",
                  scenario.file, spans, kMostSpans));
}

/// The step time and rate of a machine, played in this process.
Headline measured(const Scenario& scenario, const Machine& whole) {
  Scenario for_short = scenario;
  const Machine machine = shortened(whole, for_short.run.warmup_steps);
  const Trace trace = play(for_short, machine, 0);
  return headline(facts_of(for_short, machine.schedule, trace, ""));
}

std::vector<Alternative> answers_of(const Scenario& scenario, const Machine& machine,
                                    const ExplainOptions& options) {
  const std::function<Machine(const Scenario&)> other = machine_of;
  const std::vector<Experiment> all = experiments(scenario, machine, other, options.questions);
  const std::size_t jobs = options.jobs > 0 ? options.jobs : jobs_or_cores();
  const auto work = [&](std::size_t i) { return measured(scenario, all[i].machine()); };
  const std::vector<Headline> results =
      results_of_children(all.size(), jobs, work, [&](std::size_t done) {
        if (options.progress) options.progress(done, all.size());
      });
  return answered(all, results);
}

/// Of the run itself, but of the iterations that alternatives are played for.
Headline base_of(const Scenario& scenario, const Machine& whole, const Trace& trace) {
  Scenario for_short = scenario;
  const Machine machine = shortened(whole, for_short.run.warmup_steps);
  return headline(facts_of(for_short, machine.schedule, trace, ""));
}

/// It speaks where memory is in doubt, by the verdict of `run`.
std::string memory_sentence(const Scenario& scenario) {
  const Report report = report_of(
      scenario, {.find_largest_batch = false, .intervals = false, .memory_interval = true});
  const std::optional<MemoryFit> fit = memory_fit(report);
  if (!fit) return "";
  if (fit->verdict == MemoryVerdict::does_not_fit)
    return fmt::format("With enough memory, which it has not ({}):", details(*fit));
  if (fit->verdict == MemoryVerdict::at_risk)
    return fmt::format("It may not fit ({}).", details(*fit));
  return "";
}

}  // namespace

ExplainedRun explain(const Scenario& scenario, const ExplainOptions& options) {
  if (scenario.shared)
    throw InputError(
        fmt::format("{}: error: jobs: what bounds a step beside other jobs is not "
                    "explained\nremedy: without jobs, on the nodes of this one",
                    scenario.file));
  ExplainedRun result{
      .machine = machine_of(scenario), .trace = {}, .answers = {}, .explanation = {}};
  result.machine.play_all = true;  // a path goes through every operation
  const Machine& machine = result.machine;
  check_size(scenario, machine);
  std::vector<Alternative> answers = answers_of(scenario, machine, options);
  std::string memory = memory_sentence(scenario);
  result.trace = play(scenario, machine, kMostSpans, &result.answers);
  RunFacts facts = facts_of(scenario, machine.schedule, result.trace, machine.fidelity_name);
  facts.collectives = collective_reports(result.answers);
  facts.compute = compute_reports(scenario, machine.schedule, group_costs(scenario));
  result.explanation =
      explain(facts, machine, base_of(scenario, machine, result.trace), std::move(answers));
  if (memory.empty()) return result;
  result.explanation.words.insert(result.explanation.words.begin(), memory);
  result.explanation.memory = std::move(memory);
  return result;
}

std::string chrome_trace(const Scenario& scenario, const ExplainedRun& run) {
  const Schedule& schedule = run.machine.schedule;
  const std::uint32_t shown = run.explanation.path.shown_step;
  return with_critical_path(to_chrome_trace(schedule, run.trace, shown, shown + 1,
                                            memory_devices(scenario, schedule), run.answers),
                            run.explanation);
}

}  // namespace rehearse::inline explanation
