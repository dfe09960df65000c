#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "planner/plan_answer.hpp"
#include "planner/plan_view.hpp"
#include "planner/run_line.hpp"
#include "planner/words.hpp"
#include "view/table.hpp"

namespace rehearse::inline planner {
namespace {

using Stage = Candidate::Stage;

constexpr std::size_t kFew = 5;  ///< of the ranking and of reasons, in brief

std::string last_word(const std::string& axis) { return axis.substr(axis.rfind('.') + 1); }

/// Axes on which candidates differ.
std::vector<std::size_t> varied_axes(const Study& study) {
  std::vector<std::size_t> varied;
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    if (study.axes[i].choices.size() > 1) varied.push_back(i);
  }
  return varied;
}

/// Objectives first; of the others those that any ranked candidate knows.
std::vector<Metric> columns_of(const PlanResult& result) {
  std::vector<Metric> shown = result.prepared.plan.objective.metrics;
  for (const Metric metric : {Metric::train_time, Metric::usd, Metric::samples_per_s,
                              Metric::energy, Metric::co2, Metric::memory, Metric::accuracy}) {
    const bool known = std::ranges::any_of(result.ranking, [&](std::size_t i) {
      return result.prepared.candidates[i].figures->contains(metric);
    });
    if (known && std::ranges::find(shown, metric) == shown.end()) shown.push_back(metric);
  }
  if (batches_differ(result)) shown.push_back(Metric::global_batch);
  return shown;
}

std::string figure_cell(const Candidate& candidate, Metric metric) {
  const auto figure = candidate.figures->find(metric);
  return figure == candidate.figures->end() ? "" : format(metric, figure->second.value);
}

/// Of a layout that was not compared under common errors.
bool is_point(const Estimate<double>& figure) { return figure.low == figure.high; }

std::string interval_cell(const Candidate& candidate, Metric metric) {
  const Estimate<double>& figure = candidate.figures->at(metric);
  if (is_point(figure)) return "";
  return fmt::format("{} to {}", format(metric, figure.low), format(metric, figure.high));
}

std::string mark(const PlanResult& result, std::size_t i) {
  const PreparedPlan& prepared = result.prepared;
  const Candidate& candidate = prepared.candidates[i];
  const Objective& objective = prepared.plan.objective;
  std::string text = i == result.choice ? "chosen" : "";
  const auto add = [&](const char* word) {
    text += (text.empty() ? "" : ", ") + std::string(word);
  };
  if (objective.metrics.size() > 1) {
    if (on_front(candidate, prepared.candidates, objective)) add("front");
  } else if (i != result.choice &&
             is_tied(candidate, prepared.candidates, result.ranking, objective)) {
    add("tied");
  }
  if (!candidate.at_risk.empty()) add("at risk");
  return text;
}

std::string more_text(std::size_t more, std::size_t folded) {
  std::string text = more > 0 ? fmt::format("and {} more feasible", more) : "";
  if (folded > 0)
    text += fmt::format("{}{} behind these: no better on the same machines, or of the same figures",
                        text.empty() ? "" : ", ", folded);
  return text;
}

void put_ranking(const PlanResult& result, std::size_t top, Page& page) {
  const PreparedPlan& prepared = result.prepared;
  const std::vector<std::size_t> axes = varied_axes(prepared.study.study);
  const std::vector<Metric> shown = columns_of(result);
  const Metric first = shown.front();
  using enum TableColumn::Side;
  Table table({{"rank"}});
  for (const std::size_t axis : axes)
    table.column(last_word(prepared.study.study.axes[axis].name), left);
  for (const Metric metric : shown) {
    table.column(info(metric).name, right);
    if (metric == first) table.column("90 % interval", left);
  }
  table.column("", left);
  const std::vector<std::size_t> told = told_candidates(result);
  const std::size_t rows = std::min(top, told.size());
  for (const std::size_t i : std::span(told).first(rows)) {
    const Candidate& candidate = prepared.candidates[i];
    const auto place = std::ranges::find(result.ranking, i) - result.ranking.begin();
    std::vector<std::string> cells = {std::to_string(place + 1)};
    for (const std::size_t axis : axes) cells.push_back(prepared.study.points[i].labels[axis]);
    for (const Metric metric : shown) {
      cells.push_back(figure_cell(candidate, metric));
      if (metric == first) cells.push_back(interval_cell(candidate, metric));
    }
    cells.push_back(mark(result, i));
    table.row({std::move(cells)});
  }
  page.blank();
  table.print(page);
  if (result.ranking.size() > rows)
    page.line(
        page.ink(Ink::faint, more_text(told.size() - rows, result.ranking.size() - told.size())));
}

void put_question(const PlanResult& result, Page& page) {
  const PreparedPlan& prepared = result.prepared;
  const StudyIdentity& study = prepared.study.identity;
  page.paragraph(Ink::faint, study.description.empty() ? study.study : study.description);
  std::string constraints;
  for (const Constraint& one : prepared.plan.constraints) {
    constraints += (constraints.empty() ? "; " : ", ") + one.words();
  }
  page.wrapped_field("asked for", Ink::plain, prepared.plan.objective.words() + constraints);
  const std::vector<std::string>& frameworks = prepared.plan.frameworks;
  if (!frameworks.empty())
    page.wrapped_field(frameworks.size() == 1 ? "framework" : "frameworks", Ink::plain,
                       fmt::format("{}{}", fmt::join(frameworks, ", "),
                                   frameworks.size() == 1 ? ", of all candidates" : ""));
  const std::vector<std::string> prices = prices_of(result);
  for (const std::string& price : prices)
    page.wrapped_field(&price == prices.data() ? "prices" : "", Ink::faint, price);
  const PlanCount all = count(result);
  page.wrapped_field(
      "searched", Ink::faint,
      fmt::format(
          "{} candidates: {} dismissed by their bounds, {} simulated, {} cannot run, {} feasible",
          all.candidates, all.pruned, all.simulated, all.failed, all.feasible));
  const std::string illegal = illegal_text(prepared.plan);
  if (!illegal.empty()) page.wrapped_field("not legal", Ink::faint, illegal);
}

void put_choice(const PlanResult& result, Detail detail, Page& page) {
  page.blank();
  if (!result.choice) {
    page.wrapped_field("choice", Ink::bad, "none: nothing is feasible");
    return;
  }
  if (const std::string warning = batches_warning(result); !warning.empty())
    page.wrapped_field("beware", Ink::bad, warning);
  const Candidate& choice = result.prepared.candidates[*result.choice];
  page.wrapped_field("choice", Ink::strong, settings_text(result.prepared, *result.choice));
  const std::vector<std::string> why = reasons(result, *result.choice);
  const std::size_t told = detail == Detail::brief ? std::min(kFew, why.size()) : why.size();
  for (const std::string& reason : std::span(why).first(told))
    page.wrapped_field("", Ink::plain, reason);
  for (const std::string& risk : choice.at_risk) page.wrapped_field("at risk", Ink::bad, risk);
  page.field("alone", run_line(result.prepared, *result.choice));
  const std::string exported = export_line(result.prepared, *result.choice);
  if (!exported.empty()) page.field("run it with", exported);
}

std::string count_of(std::size_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// By what they failed on first: how many, and the nearest.
void put_rejected(const PlanResult& result, Page& page) {
  struct Group {
    std::size_t count = 0, nearest = 0;
    double excess = 0;
  };
  std::map<std::string, Group> groups;
  const std::vector<Candidate>& candidates = result.prepared.candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& one = candidates[i];
    if (one.stage == Stage::feasible) continue;
    const bool error = one.stage == Stage::error;
    Group& group = groups[error ? "cannot run" : one.misses[0].constraint];
    const double excess = error ? 0 : one.misses[0].excess();
    if (group.count++ > 0 && excess >= group.excess) continue;
    group.nearest = i;
    group.excess = excess;
  }
  if (!groups.empty()) page.blank();
  for (const auto& [name, group] : groups) {
    page.wrapped_field(
        name, Ink::plain,
        fmt::format("{} rejected; the nearest, {}: {}", count_of(group.count, "candidate"),
                    settings_text(result.prepared, group.nearest),
                    rejection_text(candidates[group.nearest])));
  }
}

void put_changes(const PlanResult& result, Page& page) {
  if (result.would_change.empty()) return;
  page.blank();
  std::string name = result.choice ? "would change" : "relaxed";
  for (const Change& change : result.would_change) {
    page.wrapped_field(name, Ink::plain, change.words);
    name.clear();
  }
}

/// Of the choice, as its own report has them.
void put_grounds(const PlanResult& result, Page& page) {
  const auto put = [&](const char* name, Ink ink, const std::vector<std::string>& texts) {
    if (!texts.empty()) page.wrapped_field(name, ink, fmt::format("{}", fmt::join(texts, "; ")));
  };
  page.blank();
  put("uncalibrated", Ink::bad, result.outside_calibration);
  put("assumed", Ink::faint, result.assumptions);
}

std::string bound_text(const Candidate& candidate, const Objective& objective) {
  if (!candidate.bound.error.empty()) return "cannot run: " + first_line(candidate.bound.error);
  if (candidate.stage == Stage::bound) return "dismissed: " + rejection_text(candidate);
  std::string text;
  for (const Metric metric : objective.metrics) {
    const auto best = candidate.bound.best.find(metric);
    const bool known = best != candidate.bound.best.end();
    text += (text.empty() ? "" : ", ") +
            (known ? fmt::format("{} {}", info(metric).more_is_better ? "at most" : "at least",
                                 format(metric, best->second.value))
                   : info(metric).name + " not bounded");
  }
  return text;
}

}  // namespace

std::string plan_table(const PlanResult& result, const PlanTable& options) {
  Page page(options.width, options.color);
  page.paragraph(result.choice ? Ink::strong : Ink::bad, plan_answer(result));
  page.blank();
  put_question(result, page);
  put_choice(result, options.detail, page);
  const std::size_t top =
      options.detail == Detail::brief ? std::min(kFew, options.top) : options.top;
  if (!result.ranking.empty()) put_ranking(result, top, page);
  const bool brief = options.detail == Detail::brief;
  if (brief && result.choice) {
    page.line(
        page.ink(Ink::faint, "-v: why others were rejected, and what would change the choice"));
    return page.text();
  }
  put_rejected(result, page);
  put_changes(result, page);
  if (!brief) put_grounds(result, page);
  return page.text();
}

std::string plan_outline(const PreparedPlan& prepared) {
  std::string text;
  std::size_t dismissed = 0, wrong = 0;
  for (std::size_t i = 0; i < prepared.candidates.size(); ++i) {
    Candidate candidate = prepared.candidates[i];
    candidate.misses =
        misses_of(candidate.bound.best, candidate.bound, prepared.plan.constraints, true);
    if (!candidate.bound.error.empty()) {
      ++wrong;
    } else if (!candidate.misses.empty()) {
      candidate.stage = Stage::bound;
      ++dismissed;
    }
    text += fmt::format("{:>6}  {}  {}\n", i + 1, settings_text(prepared, i),
                        bound_text(candidate, prepared.plan.objective));
  }
  const std::string illegal = illegal_text(prepared.plan);
  if (!illegal.empty()) text += fmt::format("not legal: {}\n", illegal);
  return text + fmt::format(
                    "{} candidates, {} left out as the same as others: {} miss a constraint "
                    "by their bounds, {} cannot run, {} to be searched\n",
                    prepared.candidates.size(), prepared.duplicates, dismissed, wrong,
                    prepared.candidates.size() - dismissed - wrong);
}

}  // namespace rehearse::inline planner
