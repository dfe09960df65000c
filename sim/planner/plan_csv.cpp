#include <fmt/format.h>

#include <utility>

#include "planner/plan_view.hpp"
#include "planner/words.hpp"
#include "view/table.hpp"

namespace rehearse::inline planner {
namespace {

using Stage = Candidate::Stage;

Table columns_of(const StudyIdentity& study) {
  Table table({{"rank"}, {"tied"}, {"stage"}});
  using enum TableColumn::Side;
  for (const std::string& axis : study.axes) table.column("vary." + axis, left);
  for (const MetricInfo& one : metrics())
    for (const char* part : {"", ".low", ".high"})
      table.column(fmt::format("{}{}", one.key, part), right);
  table.column("at_risk", left);
  table.column("failed", left);
  return table;
}

const char* stage_word(Stage stage) {
  switch (stage) {
    case Stage::feasible:
      return "feasible";
    case Stage::bound:
      return "bound";
    case Stage::error:
      return "error";
    case Stage::simulated:
    case Stage::open:
      break;
  }
  return "simulated";
}

/// `rank` and `tied` are empty for a candidate that is not ranked.
TableRow row(const PlanResult& result, std::size_t i, std::string rank, std::string tied) {
  const Candidate& candidate = result.prepared.candidates[i];
  std::vector<std::string> cells = {std::move(rank), std::move(tied), stage_word(candidate.stage)};
  for (const std::string& label : result.prepared.study.points[i].labels) cells.push_back(label);
  for (const MetricInfo& one : metrics()) {
    const bool known = candidate.figures && candidate.figures->contains(one.metric);
    const Estimate<double> figure = known ? candidate.figures->at(one.metric) : Estimate<double>{};
    for (const double value : {figure.value, figure.low, figure.high})
      cells.push_back(known ? fmt::format("{:.10g}", value) : "");
  }
  cells.push_back(fmt::format("{}", fmt::join(candidate.at_risk, "; ")));
  cells.push_back(rejection_text(candidate));
  return {std::move(cells)};
}

}  // namespace

std::string plan_csv(const PlanResult& result) {
  const PreparedPlan& prepared = result.prepared;
  Table table = columns_of(prepared.study.identity);
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    const std::size_t i = result.ranking[place];
    const bool tied = is_tied(prepared.candidates[i], prepared.candidates, result.ranking,
                              prepared.plan.objective);
    table.row(row(result, i, std::to_string(place + 1), fmt::to_string(tied)));
  }
  for (std::size_t i = 0; i < prepared.candidates.size(); ++i) {
    if (prepared.candidates[i].stage != Stage::feasible) table.row(row(result, i, "", ""));
  }
  return table.csv();
}

}  // namespace rehearse::inline planner
