#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/plan_answer.hpp"
#include "planner/words.hpp"
#include "view/page.hpp"

namespace rehearse::inline planner {
namespace {

using Stage = Candidate::Stage;

/// Of one axis, the settings beside the choice's that are told.
constexpr std::size_t kNeighbours = 3;
constexpr double kSame = 0.005;
/// The label of a searched setting that leaves the scenario as it is.
const std::string kAsItIs = "-";
constexpr double kTimes = 2;  ///< from here on "times", not percent

/// Objectives, then what people ask about next.
std::vector<Metric> told_metrics(const Objective& objective) {
  std::vector<Metric> told = objective.metrics;
  for (const Metric metric : {Metric::train_time, Metric::usd, Metric::samples_per_s}) {
    if (std::ranges::find(told, metric) == told.end()) told.push_back(metric);
  }
  return told;
}

/// Throughput says what the time to train says.
bool says_the_same(Metric metric, const Figures& figures) {
  return metric == Metric::samples_per_s && figures.contains(Metric::train_time);
}

/// "batch_per_gpu 16" for a number, or what stands below another section; else the label.
std::string setting_text(const Axis& axis, const std::string& label) {
  if (axis.searched && axis.name == "recompute") return "recompute " + label;
  if (label == kAsItIs) return axis.name + " as in the scenario";
  const std::size_t dot = axis.name.rfind('.');
  if (dot != std::string::npos) return axis.name.substr(dot + 1) + " " + label;
  const bool number = label.find_first_not_of("0123456789.") == std::string::npos;
  return number ? axis.name + " " + label : label;
}

/// What came of a candidate, for one beside it that was chosen.
std::string fate(const Candidate& candidate, const Candidate& choice, const PlanResult& result) {
  const Objective& objective = result.prepared.plan.objective;
  if (candidate.stage != Stage::feasible) return rejection_text(candidate);
  const bool tied = is_tied(candidate, result.prepared.candidates, result.ranking, objective);
  const char* const near = objective.metrics.size() == 1 ? ", tied" : ", may be on the front";
  return compared(candidate, choice, objective) + (tied ? near : "");
}

/// Candidates that differ from one in the setting of one axis, the plainest first.
std::vector<std::size_t> neighbours(const PreparedPlan& prepared, std::size_t candidate,
                                    std::size_t axis) {
  const std::vector<Point>& points = prepared.study.study.points;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == candidate) continue;
    Point point = points[i];
    point[axis] = points[candidate][axis];
    if (point == points[candidate]) found.push_back(i);
  }
  std::ranges::stable_sort(found, {},
                           [&](std::size_t i) { return prepared.candidates[i].options; });
  if (found.size() > kNeighbours) found.resize(kNeighbours);
  return found;
}

void add_neighbours(const PlanResult& result, std::size_t candidate,
                    std::vector<std::string>& reasons) {
  const PreparedPlan& prepared = result.prepared;
  const Study& study = prepared.study.study;
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis) {
    for (const std::size_t i : neighbours(prepared, candidate, axis)) {
      const std::string& label = study.axes[axis].choices[study.points[i][axis]].label;
      reasons.push_back(
          fmt::format("with {}: {}", setting_text(study.axes[axis], label),
                      fate(prepared.candidates[i], prepared.candidates[candidate], result)));
    }
  }
}

/// Of those that cannot be told from the choice by the objective, the one that is best in another
/// metric, if that makes a difference.
void add_best_of_tied(const PlanResult& result, Metric metric, std::vector<std::string>& reasons) {
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  const Objective& objective = result.prepared.plan.objective;
  const auto value = [&](std::size_t i) {
    const auto figure = candidates[i].figures->find(metric);
    return figure == candidates[i].figures->end() ? 0 : badness(metric, figure->second.value);
  };
  std::size_t best = *result.choice;
  for (const std::size_t i : result.ranking) {
    const bool tied = is_tied(candidates[i], candidates, result.ranking, objective);
    if (tied && value(i) < value(best)) best = i;
  }
  if (best == *result.choice) return;
  reasons.push_back(fmt::format("of those that are tied with it, the {}: {}: {}",
                                metric == Metric::usd ? "cheapest" : "fastest",
                                settings_text(result.prepared, best),
                                compared(candidates[best], candidates[*result.choice], objective)));
}

/// The best one of which nothing is at risk, where something of the choice's is.
void add_safest(const PlanResult& result, std::vector<std::string>& reasons) {
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  const Candidate& choice = candidates[*result.choice];
  const auto safe = without_risk(result);
  if (!safe) return;
  reasons.push_back(fmt::format(
      "the best of those that nothing is at risk of: {}: {}", settings_text(result.prepared, *safe),
      compared(candidates[*safe], choice, result.prepared.plan.objective)));
}

}  // namespace

std::string compared(Metric metric, double value, double reference) {
  const double ratio = value / reference;
  if (std::abs(ratio - 1) < kSame) return "the same " + info(metric).name;
  if (ratio >= kTimes || ratio <= 1 / kTimes) {
    return fmt::format("{:.2g} times the {}", ratio, info(metric).name);
  }
  const bool worse = (ratio > 1) != info(metric).more_is_better;
  return fmt::format("{:.0f} % {}", 100 * std::abs(ratio - 1),
                     worse ? info(metric).worse : info(metric).better);
}

std::string compared(const Candidate& candidate, const Candidate& reference,
                     const Objective& objective) {
  std::string text;
  for (const Metric metric : told_metrics(objective)) {
    if (says_the_same(metric, *candidate.figures)) continue;
    const auto own = candidate.figures->find(metric), other = reference.figures->find(metric);
    if (own == candidate.figures->end() || other == reference.figures->end()) continue;
    text += (text.empty() ? "" : ", ") + compared(metric, own->second.value, other->second.value);
  }
  return text;
}

std::string figures_text(const Candidate& candidate, const Objective& objective) {
  std::string text;
  for (const Metric metric : told_metrics(objective)) {
    if (says_the_same(metric, *candidate.figures)) continue;
    const auto figure = candidate.figures->find(metric);
    if (figure == candidate.figures->end()) continue;
    text += (text.empty() ? "" : ", ") + format(metric, figure->second.value);
  }
  return text;
}

namespace {

/// Of feasible candidates, as far as it is known: the least and the most.
std::optional<std::pair<double, double>> global_batches(const PlanResult& result) {
  std::optional<std::pair<double, double>> ends;
  for (const std::size_t i : result.ranking) {
    const Figures& figures = *result.prepared.candidates[i].figures;
    const auto batch = figures.find(Metric::global_batch);
    if (batch == figures.end()) continue;
    const double value = batch->second.value;
    if (!ends) ends.emplace(value, value);
    ends = {std::min(ends->first, value), std::max(ends->second, value)};
  }
  return ends;
}

}  // namespace

bool batches_differ(const PlanResult& result) {
  const auto ends = global_batches(result);
  return ends && ends->first < ends->second;
}

std::string batches_warning(const PlanResult& result) {
  const bool constrained =
      std::ranges::any_of(result.prepared.plan.constraints,
                          [](const Constraint& one) { return one.metric == Metric::global_batch; });
  if (constrained || !result.choice || !batches_differ(result)) return "";
  const auto ends = *global_batches(result);
  const Figures& choice = *result.prepared.candidates[*result.choice].figures;
  return fmt::format(
      "global batches of {:.0f} to {:.0f} samples are compared as if every sample trained as much; "
      "`constraints: {{global_batch: {:.0f}}}` compares like with like",
      ends.first, ends.second, choice.at(Metric::global_batch).value);
}

std::string parts_compared(const Candidate& candidate, const Candidate& reference) {
  constexpr std::size_t kTold = 3;
  constexpr double kLeast = 0.005;  // of the step
  const bool staged = !candidate.stage_parts.empty() && !reference.stage_parts.empty();
  const auto& own = staged ? candidate.stage_parts : candidate.parts;
  const auto& other = staged ? reference.stage_parts : reference.parts;
  std::map<std::string, double> differences;
  for (const auto& [name, time] : own) differences[name] += time;
  double step = 0;
  for (const auto& [name, time] : other) {
    differences[name] -= time;
    step += time;
  }
  std::vector<std::pair<std::string, double>> told(differences.begin(), differences.end());
  std::ranges::stable_sort(told, std::greater(),
                           [](const auto& one) { return std::abs(one.second); });
  std::string text;
  for (std::size_t i = 0; i < std::min(kTold, told.size()); ++i) {
    const auto& [name, time] = told[i];
    if (own.empty() || other.empty() || std::abs(time) < kLeast * step) break;
    text += fmt::format("{}{} {} {}", text.empty() ? "a step has " : ", ",
                        format(Seconds(std::abs(time))), time > 0 ? "more" : "less", name);
  }
  return text;
}

std::string illegal_text(const Plan& plan) {
  std::vector<std::pair<std::string, std::size_t>> rules(plan.illegal.begin(), plan.illegal.end());
  std::ranges::stable_sort(rules, std::greater(), [](const auto& one) { return one.second; });
  std::string text;
  std::size_t all = 0;
  for (const auto& [rule, layouts] : rules) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", layouts, rule);
    all += layouts;
  }
  if (text.empty()) return text;
  return fmt::format("{} layout{} by their rules: {}", all, all == 1 ? "" : "s", text);
}

std::string rejection_text(const Candidate& candidate) {
  if (candidate.stage == Stage::error) return "cannot run: " + first_line(candidate.error);
  std::string text;
  for (const Miss& miss : candidate.misses) text += (text.empty() ? "" : "; ") + miss.words;
  return text;
}

namespace {

/// The degrees of a layout as engineers say them: "FSDP2, no tensor or pipeline parallelism,
/// micro-batch 2". What else is 1, none or as it is goes without saying.
std::string layout_words(const Study& study, const std::vector<std::string>& labels) {
  static const std::map<std::string, std::string> kShardings = {
      {"ddp", "DDP"},       {"zero", "ZeRO-1"}, {"zero 2", "ZeRO-2"},
      {"zero 3", "ZeRO-3"}, {"fsdp", "FSDP"},   {"fsdp2", "FSDP2"}};
  static const std::set<std::string> kDegrees = {"tensor", "pipeline", "context", "expert"};
  std::vector<std::string> words, without, rest;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    const Axis& axis = study.axes[i];
    const std::string& label = labels[i];
    if (axis.choices.size() == 1 || label == kAsItIs) continue;
    if (!axis.searched) {
      rest.push_back(setting_text(axis, label));
    } else if (kDegrees.contains(axis.name)) {
      if (label == "1")
        without.push_back(axis.name);
      else
        words.push_back(axis.name + " " + label);
    } else if (axis.name == "framework") {
      words.push_back(label);
    } else if (axis.name == "sharding") {
      words.push_back(kShardings.at(label));
    } else if (axis.name == "micro_batch") {
      rest.push_back("micro-batch " + label);
    } else if (axis.name == "virtual_stages" && label != "1") {
      rest.push_back(label + " virtual stages");
    } else if (axis.name == "recompute" && label != "none") {
      rest.push_back("recompute " + label);
    } else if (axis.name == "compile") {
      rest.push_back("compiled");
    }
  }
  if (!without.empty()) {
    const std::string last = without.back();
    without.pop_back();
    words.push_back(fmt::format("no {}{}{} parallelism", fmt::join(without, ", "),
                                without.empty() ? "" : " or ", last));
  }
  words.insert(words.end(), rest.begin(), rest.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string settings_text(const PreparedPlan& prepared, std::size_t candidate) {
  const Study& study = prepared.study.study;
  if (prepared.plan.layouts) {
    const std::string words = layout_words(study, prepared.study.points[candidate].labels);
    return words.empty() ? "the only candidate" : words;
  }
  std::string text;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    if (study.axes[i].choices.size() == 1) continue;
    const std::string& label = prepared.study.points[candidate].labels[i];
    if (label == kAsItIs) continue;
    text += (text.empty() ? "" : ", ") + setting_text(study.axes[i], label);
  }
  return text.empty() ? "the only candidate" : text;
}

std::vector<std::string> reasons(const PlanResult& result, std::size_t candidate) {
  const PreparedPlan& prepared = result.prepared;
  const Objective& objective = prepared.plan.objective;
  const Candidate& own = prepared.candidates[candidate];
  std::vector<std::string> reasons = {figures_text(own, objective)};
  if (candidate == result.choice) {
    add_neighbours(result, candidate, reasons);
    const Metric first = objective.metrics.front();
    const bool timed = first == Metric::train_time || first == Metric::samples_per_s;
    if (objective.metrics.size() == 1) {
      add_best_of_tied(result, timed ? Metric::usd : Metric::train_time, reasons);
    }
    add_safest(result, reasons);
    reasons.insert(reasons.end(), result.steady.begin(), result.steady.end());
  } else {
    const Candidate& choice = prepared.candidates[result.choice.value()];
    const std::string parts = parts_compared(own, choice);
    reasons.push_back(fmt::format("beside the choice: {}{}{}", compared(own, choice, objective),
                                  parts.empty() ? "" : ": ", parts));
  }
  return reasons;
}

}  // namespace rehearse::inline planner
