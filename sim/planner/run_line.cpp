#include "planner/run_line.hpp"

#include "base/quoting.hpp"
#include "study/axes.hpp"

namespace rehearse::inline planner {

std::vector<std::pair<std::string, std::string>> overrides_of(const PreparedPlan& prepared,
                                                              std::size_t candidate) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const std::string& assignment : prepared.plan.overrides) {
    const std::size_t equals = assignment.find('=');
    overrides.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  const Study& study = prepared.study.study;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    const Axis::Choice& choice = study.axes[i].choices[study.points[candidate][i]];
    for (std::size_t k = 0; k < study.axes[i].keys.size(); ++k)
      if (!study.axes[i].leaves_as_is(choice.values[k]))
        overrides.emplace_back(study.axes[i].keys[k].shown(), flow_text(choice.values[k]));
  }
  return overrides;
}

std::string run_line(const PreparedPlan& prepared, std::size_t candidate) {
  std::string line = "rehearse run";
  for (const std::string& word : prepared.plan.question) line += " " + shell_quoted(word);
  for (const auto& [key, value] : overrides_of(prepared, candidate))
    line += " --set " + shell_quoted(key + "=" + value);
  return line;
}

}  // namespace rehearse::inline planner
