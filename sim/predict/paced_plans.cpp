#include "predict/paced_plans.hpp"

#include <fmt/format.h>

#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "predict/wire.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {
namespace {

/// As strategy.ps.staleness takes them.
const std::vector<std::string> kBounds = {"0", "1", "2", "4", "8", "16", "unbounded"};

/// Simulates in this process, which cannot simulate again.
PacedUpdates simulated_pace(const PaceQuestion& question,
                            const std::vector<std::string>& overrides) {
  Scenario scenario = read_question(question.scenario, overrides);
  if (question.whole_run) scenario.run.until = RunUntil::steps;
  const Prediction prediction = predict(scenario);
  const RunFacts facts{.scenario = scenario,
                       .schedule = prediction.machine.schedule,
                       .trace = prediction.trace,
                       .fidelity = {},
                       .provenance = {},
                       .assumptions = {},
                       .outside_calibration = {}};
  return paced_updates(basis_of(facts), prediction.report, question.whole_run);
}

struct Variant {
  std::string name;
  std::vector<std::string> overrides;
};

std::string name_of_bound(const std::string& bound) {
  if (bound == "0") return "synchronous";
  return bound == "unbounded" ? "asynchronous" : "staleness bound " + bound;
}

/// The scenario itself, or its bounds.
std::vector<Variant> variants_of(const PaceQuestion& question) {
  const Scenario scenario = read_question(question.scenario, question.overrides);
  if (!question.best_bound) return {{strategy_name(scenario.strategy), question.overrides}};
  const auto* server = server_in(scenario.strategy);
  if (server == nullptr) {
    throw InputError(fmt::format(
        "rehearse: error: --best-bound: {} has no parameter server whose bound it were\nremedy: a "
        "scenario with strategy: {{ps: ...}}",
        scenario.file));
  }
  std::vector<Variant> variants;
  for (const std::string& bound : kBounds) {
    if (server->backup_workers > 0 && bound != "0") continue;  // backups are for synchronous steps
    if (server->warmup_rounds > 0 && bound == "0") continue;   // a warm-up is for what comes after
    std::vector<std::string> overrides = question.overrides;
    overrides.push_back("strategy.ps.staleness=" + bound);
    variants.push_back({name_of_bound(bound), std::move(overrides)});
  }
  return variants;
}

}  // namespace

std::vector<TrainingPlan> simulated_plans(const PaceQuestion& question,
                                          const TrainingSetting& asked) {
  const std::vector<Variant> variants = variants_of(question);
  const std::vector<PacedUpdates> paced = results_of_children(
      variants.size(), question.jobs,
      [&](std::size_t i) { return simulated_pace(question, variants[i].overrides); });
  std::vector<TrainingPlan> plans;
  for (std::size_t i = 0; i < paced.size(); ++i)
    plans.push_back({variants[i].name, setting_of(paced[i], asked.learning_rate, asked.momentum),
                     paced[i].pace, paced[i].left_out});
  return plans;
}

}  // namespace rehearse::inline prediction
