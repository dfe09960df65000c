#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
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

JsonEntries<std::string> settings_of(const PreparedPlan& prepared, std::size_t candidate) {
  JsonEntries<std::string> settings;
  for (std::size_t i = 0; i < prepared.study.identity.axes.size(); ++i)
    settings.all.emplace_back(prepared.study.identity.axes[i],
                              prepared.study.points[candidate].labels[i]);
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
JsonEntries<Ordered> overrides_json(const PreparedPlan& prepared, std::size_t candidate) {
  JsonEntries<Ordered> overrides;
  for (const auto& [key, value] : overrides_of(prepared, candidate))
    overrides.all.emplace_back(key, value_json(Document::parse(value, "--set " + key)->root()));
  return overrides;
}

/// A figure by metric, in their order; nothing where the candidate has none.
template <class Of>
auto by_metric(const Candidate& candidate, Of of) {
  using Value = std::invoke_result_t<Of, const Figures::mapped_type&>;
  JsonEntries<std::optional<Value>> values;
  for (const MetricInfo& one : metrics()) {
    const auto figure = candidate.figures->find(one.metric);
    std::optional<Value> value;
    if (figure != candidate.figures->end()) value = of(figure->second);
    values.all.emplace_back(one.key, value);
  }
  return values;
}

/// A candidate's objective over the choice's: its value, and both ends.
using Beside = std::vector<double>;

struct Ranked {
  std::size_t rank = 0;
  bool tied = false;
  JsonEntries<std::string> settings;
  JsonEntries<Ordered> overrides;
  std::string run;
  std::optional<std::string> exported;
  JsonEntries<std::optional<double>> metrics;
  JsonEntries<std::optional<Ends<double>>> intervals;
  std::vector<std::string> at_risk, reasons;
  // Of layouts:
  std::optional<std::optional<Beside>> beside_choice;
  std::optional<std::optional<double>> choice_is_better;
  std::optional<std::map<std::string, double>> parts;
};
constexpr auto json_fields(const Ranked*) {
  using One = Ranked;
  return std::tuple(field("rank", &One::rank), field("tied", &One::tied),
                    field("settings", &One::settings), field("scenario_overrides", &One::overrides),
                    field("run", &One::run), field("export", &One::exported),
                    field("metrics", &One::metrics), field("intervals", &One::intervals),
                    field("at_risk", &One::at_risk), field("reasons", &One::reasons),
                    field_if_any("beside_choice", &One::beside_choice),
                    field_if_any("choice_is_better", &One::choice_is_better),
                    field_if_any("step_parts_s", &One::parts));
}

Ranked ranked(const PlanResult& result, std::size_t place) {
  const PreparedPlan& prepared = result.prepared;
  const std::size_t i = result.ranking[place];
  const Candidate& candidate = prepared.candidates[i];
  const std::string exported = export_line(prepared, i);
  Ranked one{
      .rank = place + 1,
      .tied = is_tied(candidate, prepared.candidates, result.ranking, prepared.plan.objective),
      .settings = settings_of(prepared, i),
      .overrides = overrides_json(prepared, i),
      .run = run_line(prepared, i),
      .exported = exported.empty() ? std::nullopt : std::optional(exported),
      .metrics = by_metric(candidate, [](const auto& figure) { return figure.value; }),
      .intervals = by_metric(candidate,
                             [](const auto& figure) {
                               return Ends<double>{figure.low, figure.high};
                             }),
      .at_risk = candidate.at_risk,
      .reasons = reasons(result, i),
      .beside_choice = {},
      .choice_is_better = {},
      .parts = {}};
  if (!prepared.plan.layouts) return one;
  const auto& beside = candidate.beside_choice;
  one.beside_choice.emplace();
  one.choice_is_better.emplace();
  if (beside) {
    *one.beside_choice = {beside->value, beside->low, beside->high};
    *one.choice_is_better = *chance_of_choice(candidate);
  }
  one.parts = candidate.parts;
  return one;
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

struct Failed {
  std::string constraint;
  std::optional<double> value, limit;
  std::string words;
};
constexpr auto json_fields(const Failed*) {
  return std::tuple(field("constraint", &Failed::constraint), field("value", &Failed::value),
                    field("limit", &Failed::limit), field("words", &Failed::words));
}

std::vector<Failed> failed(const Candidate& candidate) {
  std::vector<Failed> all;
  if (candidate.stage == Stage::error)
    all.push_back({"scenario", {}, {}, first_line(candidate.error)});
  for (const Miss& miss : candidate.misses)
    all.push_back({miss.constraint, miss.value, miss.limit, miss.words});
  return all;
}

struct Rejected {
  JsonEntries<std::string> settings;
  std::string stage;
  std::vector<Failed> failed;
};
constexpr auto json_fields(const Rejected*) {
  return std::tuple(field("settings", &Rejected::settings), field("stage", &Rejected::stage),
                    field("failed", &Rejected::failed));
}

std::vector<Rejected> rejected(const PlanResult& result) {
  std::vector<Rejected> all;
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].stage == Stage::feasible) continue;
    all.push_back(
        {settings_of(result.prepared, i), stage_name(candidates[i].stage), failed(candidates[i])});
  }
  return all;
}

struct Limit {
  std::string metric;
  std::optional<double> limit;  ///< nothing: that it fits
  std::string unit, words;
};
constexpr auto json_fields(const Limit*) {
  return std::tuple(field("metric", &Limit::metric), field("limit", &Limit::limit),
                    field("unit", &Limit::unit), field("words", &Limit::words));
}

std::vector<Limit> limits(const PlanResult& result) {
  std::vector<Limit> list;
  for (const Constraint& constraint : result.prepared.plan.constraints) {
    const bool fits = constraint.sense == Constraint::Sense::fits;
    list.push_back({info(constraint.metric).key,
                    fits ? std::nullopt : std::optional(constraint.limit),
                    info(constraint.metric).unit, constraint.words()});
  }
  return list;
}

std::vector<std::string> objective_keys(const PlanResult& result) {
  std::vector<std::string> keys;
  for (const Metric metric : result.prepared.plan.objective.metrics)
    keys.push_back(info(metric).key);
  return keys;
}

struct Illegal {
  std::string rule;
  std::size_t layouts = 0;
};
constexpr auto json_fields(const Illegal*) {
  return std::tuple(field("rule", &Illegal::rule), field("layouts", &Illegal::layouts));
}

/// A ranked candidate's place, from 1 on; nothing for none.
std::optional<std::int64_t> place_of(const PlanResult& result,
                                     const std::optional<std::size_t>& candidate) {
  if (!candidate) return std::nullopt;
  return std::ranges::find(result.ranking, *candidate) - result.ranking.begin() + 1;
}

std::vector<std::optional<std::int64_t>> told_places(const PlanResult& result) {
  std::vector<std::optional<std::int64_t>> places;
  for (const std::size_t i : told_candidates(result)) places.push_back(place_of(result, i));
  return places;
}

/// Places in the ranking of those that nothing is better than in every objective.
std::vector<std::size_t> front(const PlanResult& result) {
  std::vector<std::size_t> places;
  const Plan& plan = result.prepared.plan;
  if (plan.objective.metrics.size() < 2) return places;
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    const Candidate& one = result.prepared.candidates[result.ranking[place]];
    if (on_front(one, result.prepared.candidates, plan.objective)) places.push_back(place);
  }
  return places;
}

struct ChangeRow {
  Change change;
  std::optional<JsonEntries<std::string>> choice;
};
constexpr auto json_fields(const ChangeRow*) {
  using Row = ChangeRow;
  return std::tuple(derived<Row>("what", [](const Row& row) { return row.change.what; }),
                    derived<Row>("from", [](const Row& row) { return row.change.from; }),
                    derived<Row>("to", [](const Row& row) { return row.change.to; }),
                    derived<Row>("unit", [](const Row& row) { return row.change.unit; }),
                    derived<Row>("words", [](const Row& row) { return row.change.words; }),
                    field("choice", &Row::choice));
}

std::vector<ChangeRow> change_rows(const PlanResult& result) {
  std::vector<ChangeRow> list;
  for (const Change& change : result.would_change) {
    list.push_back({change, {}});
    if (change.choice) list.back().choice = settings_of(result.prepared, *change.choice);
  }
  return list;
}

std::vector<std::string> plan_warnings(const PlanResult& result) {
  std::string warning = batches_warning(result);
  return warning.empty() ? std::vector<std::string>() : std::vector{std::move(warning)};
}

/// A plan's result, and what its rows are.
struct PlanDocument {
  const PlanResult* result = nullptr;
  std::optional<std::vector<Illegal>> illegal{};  ///< of layouts
  std::vector<Ranked> ranking{};
  std::optional<Ranked> choice{};

  const PreparedPlan& prepared() const { return result->prepared; }
};

/// An entry that a function of the result gives.
template <class Get>
constexpr auto of_result(const char* key, Get get) {
  return derived<PlanDocument>(
      key, [get](const PlanDocument& document) { return get(*document.result); });
}

constexpr auto json_fields(const PlanDocument*) {
  using One = PlanDocument;
  using Result = PlanResult;
  return std::tuple(
      constant<One>("schema", "rehearse.plan/1"),
      of_result("plan", [](const Result& one) { return one.prepared.study.identity.study; }),
      of_result("description",
                [](const Result& one) { return one.prepared.study.identity.description; }),
      of_result("answer", plan_answer),
      of_result("program", [](const Result& one) { return one.prepared.study.identity.program; }),
      of_result("scenario", [](const Result& one) { return one.prepared.study.identity.scenario; }),
      of_result("frameworks", [](const Result& one) { return one.prepared.plan.frameworks; }),
      group<One>("objective", of_result("metrics", objective_keys),
                 of_result("words",
                           [](const Result& one) { return one.prepared.plan.objective.words(); })),
      of_result("constraints", limits), of_result("prices", prices_of),
      group<One>(
          "counts",
          of_result("candidates", [](const Result& one) { return count(one).candidates; }),
          of_result("pruned", [](const Result& one) { return count(one).pruned; }),
          of_result("simulated", [](const Result& one) { return count(one).simulated; }),
          of_result("failed", [](const Result& one) { return count(one).failed; }),
          of_result("feasible", [](const Result& one) { return count(one).feasible; }),
          of_result("duplicates", [](const Result& one) { return one.prepared.duplicates; })),
      field_if_any("not_legal", &One::illegal), field("ranking", &One::ranking),
      field("choice", &One::choice),
      of_result("runner_up", [](const Result& one) { return place_of(one, runner_up(one)); }),
      of_result("safest", [](const Result& one) { return place_of(one, safest(one)); }),
      of_result("told", told_places), of_result("rejected", rejected), of_result("pareto", front),
      of_result("would_change", change_rows),
      of_result("outside_calibration", [](const Result& one) { return one.outside_calibration; }),
      of_result("assumptions", [](const Result& one) { return one.assumptions; }),
      of_result("warnings", plan_warnings));
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
  PlanDocument document{.result = &result};
  if (result.prepared.plan.layouts) {
    document.illegal.emplace();
    for (const auto& [rule, layouts] : result.prepared.plan.illegal)
      document.illegal->push_back({rule, layouts});
  }
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    document.ranking.push_back(ranked(result, place));
    if (result.ranking[place] == result.choice) document.choice = document.ranking.back();
  }
  return json_text(to_json_value(document), 2) + "\n";
}

nlohmann::ordered_json plan_result_schema() {
  return titled_schema("What a plan came to", json_schema<PlanDocument>());
}

}  // namespace rehearse::inline planner
