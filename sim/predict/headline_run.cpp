#include "predict/headline_run.hpp"

#include <nlohmann/json.hpp>

#include "engine/engine.hpp"

namespace rehearse {
namespace {

using Json = nlohmann::json;

std::string to_text(const Headline& figures) {
  Json json = {{"step", figures.step_time.value()}, {"rate", figures.samples_per_s}};
  if (figures.staleness) json["staleness"] = *figures.staleness;
  if (figures.worker_step_time) json["worker"] = figures.worker_step_time->value();
  return json.dump();
}

Headline from_text(const std::string& text) {
  const Json json = Json::parse(text);
  Headline figures{Seconds(json.at("step").get<double>()), json.at("rate").get<double>(), {}};
  if (json.contains("staleness")) figures.staleness = json["staleness"].get<double>();
  if (json.contains("worker")) figures.worker_step_time = Seconds(json["worker"].get<double>());
  return figures;
}

}  // namespace

Headline headline_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace) {
  return headline({.scenario = scenario,
                   .schedule = schedule,
                   .trace = trace,
                   .fidelity = "",
                   .provenance = "",
                   .assumptions = {},
                   .outside_calibration = {}});
}

Headline simulated_headline(const Scenario& scenario, const Machine& machine) {
  EngineOptions options;
  options.span_limit = 0;
  options.enough = until_steady(scenario, machine.schedule);
  return headline_of(scenario, machine.schedule, run(machine, options));
}

HeadlineRun::HeadlineRun(const std::function<Headline()>& work)
    : child_([&work] { return to_text(work()); }) {}

Headline HeadlineRun::result() { return from_text(child_.result()); }

}  // namespace rehearse
