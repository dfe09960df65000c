#include <fmt/format.h>

#include "planner/plan_view.hpp"
#include "planner/words.hpp"
#include "report/csv_table.hpp"

namespace rehearse {
namespace {

using Stage = Candidate::Stage;

std::string header(const StudyIdentity& study) {
  std::string line = "rank,tied,stage";
  for (const std::string& axis : study.axes) line += "," + csv_field("vary." + axis);
  for (const MetricInfo& one : metrics()) {
    line += fmt::format(",{0},{0}.low,{0}.high", one.key);
  }
  return line + ",at_risk,failed\n";
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

std::string row(const PlanResult& result, std::size_t i, const std::string& place) {
  const Candidate& candidate = result.prepared.candidates[i];
  std::string line = place + "," + stage_word(candidate.stage);
  for (const std::string& label : result.prepared.study.points[i].labels)
    line += "," + csv_field(label);
  for (const MetricInfo& one : metrics()) {
    const bool known = candidate.figures && candidate.figures->contains(one.metric);
    if (!known) {
      line += ",,,";
      continue;
    }
    const Figure& figure = candidate.figures->at(one.metric);
    line += fmt::format(",{:.10g},{:.10g},{:.10g}", figure.value, figure.low, figure.high);
  }
  line += "," + csv_field(fmt::format("{}", fmt::join(candidate.at_risk, "; ")));
  return line + "," + csv_field(rejection_text(candidate)) + "\n";
}

}  // namespace

std::string plan_csv(const PlanResult& result) {
  const PreparedPlan& prepared = result.prepared;
  std::string csv = header(prepared.study.identity);
  for (std::size_t place = 0; place < result.ranking.size(); ++place) {
    const std::size_t i = result.ranking[place];
    const bool tied = is_tied(prepared.candidates[i], prepared.candidates, result.ranking,
                              prepared.plan.objective);
    csv += row(result, i, fmt::format("{},{}", place + 1, tied));
  }
  for (std::size_t i = 0; i < prepared.candidates.size(); ++i) {
    if (prepared.candidates[i].stage != Stage::feasible) csv += row(result, i, ",");
  }
  return csv;
}

}  // namespace rehearse
