#include "predict/memory_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/printable.hpp"
#include "engine/engine.hpp"
#include "predict/intervals/memory_mechanisms.hpp"
#include "predict/measured_job.hpp"
#include "predict/single_changes.hpp"
#include "predict/wire.hpp"
#include "report/measures.hpp"
#include "report/memory_verdict.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {
namespace {

/// With figures alone: no intervals, no grounds.
RunFacts bare_facts(const Scenario& scenario, const Schedule& schedule, const Trace& trace) {
  return {.scenario = scenario,
          .schedule = schedule,
          .trace = trace,
          .fidelity = "",
          .provenance = "",
          .assumptions = {},
          .outside_calibration = {}};
}

std::optional<std::int64_t> largest_batch_of(const Scenario& scenario, const Schedule& schedule) {
  const Trace none;
  RunFacts facts = bare_facts(scenario, schedule, none);
  facts.schedule_at_batch = schedule_at_batch(scenario);
  const auto memory = memory_report(facts);
  return memory ? memory->largest_batch_per_gpu : std::nullopt;
}

/// Nothing where it does not fit.
using Tried = std::optional<FittingChange>;

/// Simulates in this process, which cannot simulate again.
FittingChange figures_of(const Scenario& scenario, const Machine& machine) {
  EngineOptions options;
  options.enough = until_steady(scenario, machine.schedule);
  const Trace trace = run(machine, options);
  RunFacts facts = bare_facts(scenario, machine.schedule, trace);
  facts.memory_mechanisms = [&](const MemoryReport& memory) {
    return memory_mechanisms(scenario, group_costs(scenario), memory);
  };
  const Report report = summarize(facts);
  const MemoryReport& memory = *report.memory;
  const std::optional<MemoryFit> fit = memory_fit(report);
  return {.change = {},
          .set = {},
          .at_risk = fit && fit->interval && fit->interval->high > memory.capacity,
          .allocated_peak = memory.allocated_peak,
          .reserved_peak = memory.reserved_peak,
          .used = memory.used(),
          .step_time = report.step_time,
          .samples_per_s = report.samples_per_s};
}

/// One scenario file with what the user set.
class Trial {
 public:
  Trial(const std::filesystem::path& file, const std::vector<std::string>& overrides)
      : file_(file), overrides_(overrides) {}

  /// In this process.
  Tried operator()(const SingleChange& change) {
    Tried tried;
    if (change.assignments.empty()) tried = with_largest_batch();
    for (const auto& assignments : change.assignments)
      if (!tried) tried = with(assignments);
    if (!tried) return tried;
    tried->change = change.change;
    if (change.assignments.size() != 1) tried->change += fmt::format(": {} per GPU", batch_);
    tried->changes_training = change.changes_training;
    return tried;
  }

 private:
  Scenario read(const std::vector<std::string>& assignments) const {
    std::vector<std::string> all = overrides_;
    all.insert(all.end(), assignments.begin(), assignments.end());
    return read_question(file_, all);
  }
  Tried with(const std::vector<std::string>& assignments) {
    const Scenario scenario = read(assignments);
    const Machine machine = machine_of(scenario);
    const auto memory = memory_of(scenario, machine);
    if (!memory || !memory->fits) return std::nullopt;
    FittingChange figures = figures_of(scenario, machine);
    figures.set = set_options(assignments);
    batch_ = scenario.batch_per_gpu;
    return figures;
  }
  Tried with_largest_batch() {
    const Scenario scenario = read({});
    const auto batch = largest_batch_of(scenario, machine_of(scenario).schedule);
    if (!batch || *batch >= scenario.batch_per_gpu) return std::nullopt;
    return with({fmt::format("model.batch_per_gpu={}", *batch)});
  }

  const std::filesystem::path& file_;
  const std::vector<std::string>& overrides_;
  std::int64_t batch_ = 0;  ///< of what fits
};

}  // namespace

std::optional<MemoryReport> memory_of(const Scenario& scenario, const Machine& machine) {
  return memory_report(bare_facts(scenario, machine.schedule, Trace{}));
}

std::vector<FittingChange> fitting_changes(
    const std::filesystem::path& file, const std::vector<std::string>& overrides,
    const std::function<void(std::size_t done, std::size_t all)>& ended) {
  const auto document = Document::load(file)->with_overrides(overrides);
  const auto changes = single_changes(*document, read_question(*document));
  const std::vector<ChildEnd> ends = in_child_processes(
      changes.size(), jobs_or_cores(),
      [&](std::size_t i) {
        const Tried tried = Trial(file, overrides)(changes[i]);
        return tried ? sent(*tried) : std::string();
      },
      [&](std::size_t done) {
        if (ended) ended(done, changes.size());
      });
  std::vector<FittingChange> fitting;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    // Advice that cannot be had is missing; the answer is there without it.
    if (ends[i].code == ExitCode::internal || ends[i].code == ExitCode::missing)
      tell(fmt::format("not tried: {}: {}\n", changes[i].change, ends[i].text));
    // What the scenario refuses (a measured model's precision) is no change that it could make.
    if (ends[i].code == ExitCode::success && !ends[i].text.empty())
      fitting.push_back(result_of<FittingChange>(ends[i]));
  }
  return fitting;
}

void add_advice(std::vector<FittingChange> changes, Report& report) {
  MemoryReport& memory = *report.memory;
  if (memory.fits)
    std::erase_if(changes, [&](const FittingChange& one) { return one.used >= memory.used(); });
  for (FittingChange& one : changes) one.price = report.samples_per_s / one.samples_per_s - 1;
  std::ranges::stable_sort(changes, {}, [](const FittingChange& one) {
    return std::tuple(one.changes_training, one.at_risk, one.price);
  });
  memory.would_fit = std::move(changes);
}

Prediction predict_with_advice(const Scenario& scenario, const AdviceOptions& options) {
  Machine machine = machine_of(scenario);
  std::optional<MemoryReport> memory = memory_of(scenario, machine);
  std::optional<std::vector<FittingChange>> changes;
  if (options.always || (memory && !memory->fits))
    changes = fitting_changes(options.file, options.overrides, options.tried);
  Prediction prediction = predict(scenario, std::move(machine),
                                  {.progress = options.progress,
                                   .intervals = options.intervals,
                                   .memory_interval = true,
                                   .memory = std::move(memory)});
  if (changes && prediction.report.memory) add_advice(std::move(*changes), prediction.report);
  return prediction;
}

}  // namespace rehearse::inline prediction
