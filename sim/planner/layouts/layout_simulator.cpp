#include "planner/layouts/layout_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"
#include "engine/engine.hpp"
#include "memory/memory.hpp"
#include "planner/scenario_bounds.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "report/measures.hpp"
#include "study/content_key.hpp"
#include "view/views.hpp"

namespace rehearse::inline planner {
namespace {

using Json = nlohmann::json;

/// Micro-batches until as many are in flight as ever will be, beside gradients: rounds of a
/// pipeline's ranks.
constexpr int kRounds = 3;

/// The same layout over fewer micro-batches: what it holds in them it holds of more, too.
Scenario shortened(const Scenario& scenario) {
  Scenario other = scenario;
  if (!is_one_layout(other.strategy)) return other;
  Layout& layout = *other.strategy.layout;
  if (!layout.order)
    layout.micro_batches = std::min(layout.micro_batches, kRounds * layout.mesh.pipeline);
  return other;
}

struct Need {
  double bytes = 0, capacity = 0;
};

/// Of the fullest rank, fragmentation left out.
Need least_memory(const Scenario& scenario) {
  const Scenario few = shortened(scenario);
  const Schedule schedule = make_schedule(few);
  const std::vector<MemoryDevice> devices = memory_devices(few, schedule);
  Need need;
  for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
    if (schedule.programs[p].tensors.empty()) continue;
    const MemoryForecast forecast =
        forecast_memory(schedule.programs[p], devices[p], PeakDetail::left_out);
    need.bytes = std::max(need.bytes, (forecast.allocated_peak + devices[p].outside).value());
    need.capacity = devices[p].capacity.value();
  }
  return need;
}

/// Without what belongs to its file: the same content, the same text.
Json report_json(const Report& report) {
  Json json = parsed_json(to_json(report));
  for (const char* key : {"schema", "scenario", "description"}) json.erase(key);
  return json;
}

std::string predict_once(const Scenario& scenario, bool must_fit) {
  if (must_fit) {
    const Need need = least_memory(scenario);
    if (need.capacity > 0 && need.bytes > need.capacity)
      return json_text(Json({{"too_large", true}, {"memory", {{"used_bytes", need.bytes}}}}));
  }
  const Options options{.find_largest_batch = false, .intervals = false, .memory_interval = true};
  return json_text(report_json(predict(scenario, options).report));
}

std::string with_errors(const Document& document) {
  const Prediction prediction = predict(read_question(document), {.find_largest_batch = false});
  Json json = report_json(prediction.report);
  Json& errors = json["error_sources"] = Json::object();
  for (const ErrorSource& source : prediction.error_sources)
    errors[source.name] = {std::log(source.low.step_time / source.best.step_time),
                           std::log(source.high.step_time / source.best.step_time)};
  return json_text(json);
}

std::string predict_layout_if(const Document& document, const WhatIf& machine) {
  Scenario scenario = read_question(document);
  change_machine(scenario, machine);
  return predict_once(scenario, false);
}

}  // namespace

PlanSimulator layout_simulator(bool must_fit) {
  PlanSimulator all;
  all.simulator = {.program = program_identity(simgrid_version()) + ", without intervals" +
                              (must_fit ? ", where it fits" : ""),
                   .read = [](const Document& scenario) { read_scenario(scenario); },
                   .predict =
                       [must_fit](const Document& document) {
                         return predict_once(read_question(document), must_fit);
                       }};
  all.bound = [program = all.simulator.program](const Document& scenario) {
    return layout_bound_of(scenario, program);
  };
  all.predict_if = predict_layout_if;
  all.predict_with_errors = with_errors;
  return all;
}

std::map<std::string, double> parts_of(const Json& report) {
  const auto found = report.find("breakdown");
  if (found == report.end()) return {};
  return {{"computing", found->at("compute_s").get<double>()},
          {"waiting for bytes", found->at("exposed_communication_s").get<double>()},
          {"idling", found->at("idle_s").get<double>()}};
}

std::map<std::string, double> stage_parts_of(const Json& report) {
  std::map<std::string, double> parts;
  const auto stages = report.find("stages");
  if (stages == report.end() || !stages->is_array() || stages->empty()) return parts;
  const auto share = 1.0 / static_cast<double>(stages->size());
  for (const Json& stage : *stages) {
    parts["computing"] += share * stage.at("compute_s").get<double>();
    for (const auto& [name, time] : stage.at("bubble").items())
      parts["bubbles"] += share * time.get<double>();
    for (const auto& [name, time] : stage.at("exposed_communication").items())
      parts["waiting for " + name.substr(0, name.rfind('_')) + " exchanges"] +=
          share * time.get<double>();
  }
  return parts;
}

std::map<std::string, std::pair<double, double>> shifts_of(const Json& report) {
  std::map<std::string, std::pair<double, double>> shifts;
  const auto sources = report.find("error_sources");
  if (sources == report.end()) return shifts;
  for (const auto& [name, ends] : sources->items())
    shifts[name] = {ends.at(0).get<double>(), ends.at(1).get<double>()};
  return shifts;
}

PlanSimulator simulator_for(const Plan& plan) {
  if (!plan.layouts) return plan_simulator();
  return layout_simulator(std::ranges::any_of(plan.constraints, [](const Constraint& one) {
    return one.sense == Constraint::Sense::fits;
  }));
}

}  // namespace rehearse::inline planner
