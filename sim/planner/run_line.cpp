#include "planner/run_line.hpp"

#include <map>

#include "base/quoting.hpp"
#include "framework/framework.hpp"
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

namespace {

std::string line_of(std::string line, const PreparedPlan& prepared, std::size_t candidate) {
  for (const std::string& word : prepared.plan.question) line += " " + shell_quoted(word);
  for (const auto& [key, value] : overrides_of(prepared, candidate))
    line += " --set " + shell_quoted(key + "=" + value);
  if (!prepared.plan.input.empty()) line += " <<< " + shell_quoted(prepared.plan.input);
  return line;
}

/// A training of a framework is launched by a file of this format.
const std::map<std::string, std::string>& exports() {
  static const std::map<std::string, std::string> formats = {{"torch", "accelerate"},
                                                             {"megatron", "megatron"},
                                                             {"torchtitan", "torchtitan"},
                                                             {"deepspeed", "deepspeed"}};
  return formats;
}

}  // namespace

std::string run_line(const PreparedPlan& prepared, std::size_t candidate) {
  return line_of("rehearse run", prepared, candidate);
}

std::string export_line(const PreparedPlan& prepared, std::size_t candidate) {
  const Study& study = prepared.study.study;
  const auto scenario = scenario_at(study, study.points[candidate]);
  Map root = scenario->root().as_map();
  const auto strategy = root.optional("strategy");
  if (!strategy) return "";
  const auto format = exports().find(framework_name(root, strategy));
  const bool is_served =
      strategy->is_map() && (strategy->as_map().has("ps") || strategy->as_map().has("local_sgd"));
  if (format == exports().end() || is_served) return "";
  return line_of("rehearse export " + format->second, prepared, candidate);
}

}  // namespace rehearse::inline planner
