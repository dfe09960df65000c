#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "config/json_text.hpp"
#include "planner/common_errors.hpp"
#include "planner/plan_answer.hpp"
#include "planner/plan_view.hpp"
#include "planner/run_line.hpp"
#include "planner/words.hpp"
#include "view/page.hpp"

namespace rehearse::inline planner {
namespace {

using Ordered = nlohmann::ordered_json;
using Stage = Candidate::Stage;

Ordered settings_json(const PreparedPlan& prepared, std::size_t candidate) {
  Ordered settings = Ordered::object();
  for (std::size_t i = 0; i < prepared.study.identity.axes.size(); ++i) {
    settings[prepared.study.identity.axes[i]] = prepared.study.points[candidate].labels[i];
  }
  return settings;
}

/// A value as JSON has it: numbers and truths are none of its strings.
Ordered value_json(const Value& value) {
  if (value.is_null()) return nullptr;
  if (value.is_map()) {
    Ordered object = Ordered::object();
    Map map = value.as_map();
    for (const std::string& key : map.keys()) object[key] = value_json(map.require(key));
    return object;
  }
  if (value.is_list()) {
    Ordered array = Ordered::array();
    for (const Value& item : value.as_list()) array.push_back(value_json(item));
    return array;
  }
  const std::string text = value.as_string();
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = decimal_number(text)) {
    const bool whole = *number == std::floor(*number) && std::abs(*number) < 0x1p53;
    return whole ? Ordered(static_cast<std::int64_t>(*number)) : Ordered(*number);
  }
  return text;
}

/// What `--set` would change in the scenario.
Ordered overrides_json(const PreparedPlan& prepared, std::size_t candidate) {
  Ordered overrides = Ordered::object();
  for (const auto& [key, value] : overrides_of(prepared, candidate))
    overrides[key] = value_json(Document::parse(value, "--set " + key)->root());
  return overrides;
}

Ordered metrics_json(const Candidate& candidate) {
  Ordered values = Ordered::object();
  for (const MetricInfo& one : metrics()) {
    const auto figure = candidate.figures->find(one.metric);
    values[one.key] =
        figure == candidate.figures->end() ? Ordered() : Ordered(figure->second.value);
  }
  return values;
}

Ordered intervals_json(const Candidate& candidate) {
  Ordered values = Ordered::object();
  for (const MetricInfo& one : metrics()) {
    const auto figure = candidate.figures->find(one.metric);
    values[one.key] = figure == candidate.figures->end()
                          ? Ordered()
                          : Ordered::array({figure->second.low, figure->second.high});
  }
  return values;
}

Ordered ranked_json(const PlanResult& result, std::size_t place) {
  const PreparedPlan& prepared = result.prepared;
  const std::size_t i = result.ranking[place];
  const Candidate& candidate = prepared.candidates[i];
  const std::string exported = export_line(prepared, i);
  Ordered json = {
      {"rank", place + 1},
      {"tied", is_tied(candidate, prepared.candidates, result.ranking, prepared.plan.objective)},
      {"settings", settings_json(prepared, i)},
      {"scenario_overrides", overrides_json(prepared, i)},
      {"run", run_line(prepared, i)},
      {"export", exported.empty() ? Ordered() : Ordered(exported)},
      {"metrics", metrics_json(candidate)},
      {"intervals", intervals_json(candidate)},
      {"at_risk", candidate.at_risk},
      {"reasons", reasons(result, i)}};
  if (prepared.plan.layouts) {
    const auto& beside = candidate.beside_choice;
    json["beside_choice"] =
        beside ? Ordered::array({beside->value, beside->low, beside->high}) : Ordered();
    json["choice_is_better"] = beside ? Ordered(*chance_of_choice(candidate)) : Ordered();
    json["step_parts_s"] = candidate.parts;
  }
  return json;
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::bound:
      return "bound";
    case Stage::error:
      return "error";
    case Stage::simulated:
    case Stage::feasible:
    case Stage::open:
      break;
  }
  return "simulated";
}

Ordered failed_json(const Candidate& candidate) {
  Ordered failed = Ordered::array();
  if (candidate.stage == Stage::error) {
    failed.push_back({{"constraint", "scenario"},
                      {"value", nullptr},
                      {"limit", nullptr},
                      {"words", first_line(candidate.error)}});
  }
  for (const Miss& miss : candidate.misses) {
    failed.push_back({{"constraint", miss.constraint},
                      {"value", miss.value ? Ordered(*miss.value) : Ordered()},
                      {"limit", miss.limit},
                      {"words", miss.words}});
  }
  return failed;
}

Ordered rejected_json(const PlanResult& result) {
  Ordered rejected = Ordered::array();
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].stage == Stage::feasible) continue;
    rejected.push_back({{"settings", settings_json(result.prepared, i)},
                        {"stage", stage_name(candidates[i].stage)},
                        {"failed", failed_json(candidates[i])}});
  }
  return rejected;
}

Ordered constraints_json(const Plan& plan) {
  Ordered list = Ordered::array();
  for (const Constraint& constraint : plan.constraints) {
    const bool fits = constraint.sense == Constraint::Sense::fits;
    list.push_back({{"metric", info(constraint.metric).key},
                    {"limit", fits ? Ordered() : Ordered(constraint.limit)},
                    {"unit", info(constraint.metric).unit},
                    {"words", constraint.words()}});
  }
  return list;
}

Ordered objective_json(const Objective& objective) {
  Ordered keys = Ordered::array();
  for (const Metric metric : objective.metrics) keys.push_back(info(metric).key);
  return {{"metrics", keys}, {"words", objective.words()}};
}

Ordered counts_json(const PlanResult& result) {
  const PlanCount all = count(result);
  return {{"candidates", all.candidates}, {"pruned", all.pruned},
          {"simulated", all.simulated},   {"failed", all.failed},
          {"feasible", all.feasible},     {"duplicates", result.prepared.duplicates}};
}

/// A ranked candidate's place, from 1 on; null for none.
Ordered place_json(const PlanResult& result, const std::optional<std::size_t>& candidate) {
  if (!candidate) return nullptr;
  return std::ranges::find(result.ranking, *candidate) - result.ranking.begin() + 1;
}

/// Places in the ranking of those that nothing is better than in every objective.
Ordered front_json(const PlanResult& result) {
  Ordered front = Ordered::array();
  const Plan& plan = result.prepared.plan;
  if (plan.objective.metrics.size() < 2) return front;
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    const Candidate& one = result.prepared.candidates[result.ranking[place]];
    if (on_front(one, result.prepared.candidates, plan.objective)) front.push_back(place);
  }
  return front;
}

Ordered changes_json(const PlanResult& result) {
  Ordered list = Ordered::array();
  for (const Change& change : result.would_change) {
    list.push_back(
        {{"what", change.what},
         {"from", change.from},
         {"to", change.to},
         {"unit", change.unit},
         {"words", change.words},
         {"choice", change.choice ? settings_json(result.prepared, *change.choice) : Ordered()}});
  }
  return list;
}

}  // namespace

PlanCount count(const PlanResult& result) {
  PlanCount all{.candidates = result.prepared.candidates.size(), .simulated = result.simulated};
  for (const Candidate& candidate : result.prepared.candidates) {
    if (candidate.stage == Stage::bound) ++all.pruned;
    if (candidate.stage == Stage::error) ++all.failed;
    if (candidate.stage == Stage::feasible) ++all.feasible;
  }
  return all;
}

std::string plan_json(const PlanResult& result) {
  const PreparedPlan& prepared = result.prepared;
  Ordered json;
  json["schema"] = "rehearse.plan/1";
  json["plan"] = prepared.study.identity.study;
  json["description"] = prepared.study.identity.description;
  json["answer"] = plan_answer(result);
  json["program"] = prepared.study.identity.program;
  json["scenario"] = prepared.study.identity.scenario;
  json["frameworks"] = prepared.plan.frameworks;
  json["objective"] = objective_json(prepared.plan.objective);
  json["constraints"] = constraints_json(prepared.plan);
  json["prices"] = prices_of(result);
  json["counts"] = counts_json(result);
  if (prepared.plan.layouts) {
    json["not_legal"] = Ordered::array();
    for (const auto& [rule, layouts] : prepared.plan.illegal)
      json["not_legal"].push_back({{"rule", rule}, {"layouts", layouts}});
  }
  json["ranking"] = Ordered::array();
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    json["ranking"].push_back(ranked_json(result, place));
  }
  const auto chosen = std::ranges::find(result.ranking, result.choice);
  json["choice"] = chosen == result.ranking.end()
                       ? Ordered()
                       : json["ranking"][static_cast<std::size_t>(chosen - result.ranking.begin())];
  json["runner_up"] = place_json(result, runner_up(result));
  json["safest"] = place_json(result, safest(result));
  json["told"] = Ordered::array();
  for (const std::size_t i : told_candidates(result)) json["told"].push_back(place_json(result, i));
  json["rejected"] = rejected_json(result);
  json["pareto"] = front_json(result);
  json["would_change"] = changes_json(result);
  json["outside_calibration"] = result.outside_calibration;
  json["assumptions"] = result.assumptions;
  json["warnings"] = Ordered::array();
  if (std::string warning = batches_warning(result); !warning.empty())
    json["warnings"].push_back(std::move(warning));
  return json_text(json, 2) + "\n";
}

}  // namespace rehearse::inline planner
