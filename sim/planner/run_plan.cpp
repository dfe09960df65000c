#include "planner/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/stop_signal.hpp"
#include "config/json/json_text.hpp"
#include "planner/common_errors.hpp"
#include "planner/kept_bounds.hpp"
#include "planner/layouts/layout_simulator.hpp"
#include "planner/what_if.hpp"
#include "view/page.hpp"

namespace rehearse::inline planner {
namespace {

using Json = nlohmann::json;

/// Candidates that are simulated at a time: one more layout costs seconds.
constexpr std::size_t kWave = 16, kWaveOfLayouts = 4;

/// Of a value that a file writes as a map: how many settings it makes.
std::size_t leaves(const Value& value) {
  if (!value.is_map()) return 1;
  Map map = value.as_map();
  std::size_t count = 0;
  for (const std::string& key : map.keys()) count += leaves(map.require(key));
  return count;
}

/// Options beyond the plain strategy, and searched settings that are not the first of their axis.
std::size_t options_of(const Study& study, const Point& point) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Axis& axis = study.axes[i];
    for (const Value& value : axis.choices[point[i]].values) {
      if (value.is_map()) count += leaves(value);
      if (!value.is_map() && value.file() == "search" && point[i] > 0) ++count;
    }
  }
  return count;
}

StudyIdentity identity_of(const Study& study, const std::string& program) {
  StudyIdentity identity{.program = program,
                         .study = study.name,
                         .description = study.description,
                         .scenario = std::filesystem::path(study.base->name()).filename().string(),
                         .axes = {}};
  for (const Axis& axis : study.axes) identity.axes.push_back(axis.name);
  return identity;
}

/// Bounds of all batches. Those that `file` lacks are computed, and kept there when it is stopped.
std::vector<Bound> bounds_of(const Study& study, const PlanSimulator& simulator,
                             const std::filesystem::path& file, const ChildLimits& limits,
                             const std::function<void(const SweepProgress&)>& progress) {
  const KeptBounds kept(file, identity_of(study, simulator.simulator.program), study);
  std::map<std::size_t, std::string> texts = kept.known();
  std::vector<std::size_t> open;
  SweepProgress done{.all = study.points.size()};
  for (std::size_t batch = 0; batch < kept.batches(); ++batch) {
    if (!texts.contains(batch))
      open.push_back(batch);
    else
      done.done += kept.end(batch) - kept.begin(batch);
  }
  const auto work = [&](std::size_t child) { return kept.computed(open[child], simulator.bound); };
  const auto ended = [&](std::size_t child, ChildEnd end) {
    if (end.code != ExitCode::success) throw Error(end.code, end.text);
    const std::size_t batch = open[child];
    texts[batch] = std::move(end.text);
    done.done += kept.end(batch) - kept.begin(batch);
    if (progress) progress(done);
  };
  const ChildLimits own{.jobs = limits.jobs, .stop = limits.stop};
  if (!run_children(open.size(), own, work, ended)) {
    if (!kept.keep(texts))
      fail_as_stopped("nothing was simulated yet", "the same command begins anew");
    fail_as_stopped(fmt::format("{} holds the bounds of {} of {} candidates", file.string(),
                                done.done, done.all));
  }
  std::vector<Bound> bounds;
  for (const auto& [batch, text] : texts)
    for (Bound& one : KeptBounds::read(text)) bounds.push_back(std::move(one));
  return bounds;
}

/// A name of `vary` that no list has is a mistake of the plan's, not a candidate that cannot run:
/// every point with it fails at its own place in the file.
void check_names(const Study& study, const std::vector<Bound>& bounds) {
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (study.axes[axis].searched) continue;
    for (std::size_t choice = 0; choice < study.axes[axis].choices.size(); ++choice) {
      for (const Value& value : study.axes[axis].choices[choice].values) {
        const std::string place = fmt::format("{}:{}:", value.file(), value.line()),
                          got = fmt::format("; got \"{}\"", value.shown());
        const Bound* wrong = nullptr;
        bool all = true;
        for (std::size_t i = 0; i < bounds.size() && all; ++i) {
          if (study.points[i][axis] != choice) continue;
          all = bounds[i].error.starts_with(place) &&
                bounds[i].error.find(": expected one of ") != std::string::npos &&
                bounds[i].error.find(got) != std::string::npos;
          if (all) wrong = &bounds[i];
        }
        if (all && wrong != nullptr) throw Error(wrong->code, wrong->error);
      }
    }
  }
}

/// The objective that no candidate can tell is a mistake of the plan's.
void check_objective(const PreparedPlan& prepared) {
  for (const Metric metric : prepared.plan.objective.metrics) {
    std::string why;
    const bool told = std::ranges::any_of(prepared.candidates, [&](const Candidate& one) {
      if (!one.bound.error.empty()) return false;
      const auto unknown = one.bound.unknown.find(metric);
      if (unknown != one.bound.unknown.end()) why = unknown->second;
      return unknown == one.bound.unknown.end();
    });
    if (told) continue;
    prepared.plan.file->root()
        .as_map()
        .require("objective")
        .fail(fmt::format("no candidate's {} is known: {}", info(metric).name, why),
              "complete the scenario, or take another objective, such as throughput");
  }
}

Simulated simulated_from(const ResultStore& store, const std::string& key) {
  const std::optional<Outcome> outcome = store.find(key);
  if (!outcome) return {.figures = {}, .error = "it was not simulated"};
  if (outcome->code != ExitCode::success) return {.figures = {}, .error = outcome->text};
  try {
    const Json report = parsed_json(outcome->text);
    return {.figures = figures_of(report),
            .error = "",
            .too_large = report.contains("too_large"),
            .parts = parts_of(report),
            .stage_parts = stage_parts_of(report),
            .shifts = shifts_of(report),
            .loss_shifts = loss_shifts(report),
            .kind = training_kind(report)};
  } catch (const Json::exception& error) {
    fail_as_damaged(store.file(), "the result " + key, error.what());
  }
}

/// Simulates waves as parts of one sweep, and tells how far it is.
class Waves {
 public:
  Waves(const PreparedStudy& study, const Simulator& simulator, ResultStore& store,
        const SweepOptions& options)
      : study_(study), simulator_(simulator), store_(store), options_(options) {}

  std::vector<Simulated> operator()(const std::vector<std::size_t>& wave) {
    SweepOptions options = options_;
    options.only = &wave;
    options.progress = [&](const SweepProgress& now) {
      if (options_.progress) options_.progress(in_all(now));
    };
    if (!sweep(study_, simulator_, store_, options)) {
      fail_as_stopped(fmt::format("{} holds {} results", store_.file().string(), done_));
    }
    done_ += wave.size();
    std::vector<Simulated> results;
    results.reserve(wave.size());
    for (const std::size_t i : wave) {
      results.push_back(simulated_from(store_, study_.points[i].key));
    }
    return results;
  }

  std::size_t done() const { return done_; }
  /// So many candidates may still be simulated, the next wave's among them.
  void expect(std::size_t open) { open_ = open; }

 private:
  SweepProgress in_all(SweepProgress now) {
    simulated_ = std::max(simulated_, before_ + now.simulated);
    if (now.simulated == now.to_simulate) before_ = simulated_;
    return {.done = done_ + now.done,
            .all = done_ + std::max(open_, now.all),
            .failed = now.failed,
            .simulated = simulated_,
            .to_simulate = simulated_ + std::max(open_, now.all) - now.done,
            .at_most = true};
  }

  const PreparedStudy& study_;
  const Simulator& simulator_;
  ResultStore& store_;
  const SweepOptions& options_;
  std::size_t done_ = 0, open_ = 0;
  std::size_t simulated_ = 0, before_ = 0;  ///< by this run: until now, and before this wave
};

/// Answers are kept beside the candidates' outcomes, by keys of their own.
class Asking {
 public:
  Asking(const PreparedStudy& study, const PlanSimulator& simulator, ResultStore& store,
         const ChildLimits& limits)
      : study_(study), simulator_(simulator), store_(store), limits_(limits) {}

  std::vector<Simulated> operator()(const std::vector<Question>& questions) const {
    std::vector<Question> open;
    for (const Question& one : questions) {
      const auto known = store_.find(key_of(one));
      if (!known || !known->is_final()) open.push_back(one);
    }
    const auto work = [&](std::size_t i) {
      const auto scenario = scenario_at(study_.study, study_.study.points[open[i].candidate]);
      return of_its_key(
          study_.points[open[i].candidate].key, simulator_.simulator.program, *scenario, [&] {
            return open[i].with_errors ? simulator_.predict_with_errors(*scenario)
                                       : simulator_.predict_if(*scenario, open[i].machine);
          });
    };
    const auto ended = [&](std::size_t i, ChildEnd end) {
      store_.store(key_of(open[i]), {end.code, std::move(end.text)});
    };
    if (!run_children(open.size(), limits_, work, ended)) {
      fail_as_stopped(store_.file().string() + " holds all candidates");
    }
    std::vector<Simulated> answers;
    answers.reserve(questions.size());
    for (const Question& one : questions) answers.push_back(simulated_from(store_, key_of(one)));
    return answers;
  }

 private:
  std::string key_of(const Question& question) const {
    if (question.with_errors) return study_.points[question.candidate].key + ", with errors";
    return fmt::format("{}, network x {}, compute x {}", study_.points[question.candidate].key,
                       question.machine.network, question.machine.compute);
  }

  const PreparedStudy& study_;
  const PlanSimulator& simulator_;
  ResultStore& store_;
  const ChildLimits& limits_;
};

/// What the choice's report says of its own grounds.
void add_grounds(const ResultStore& store, PlanResult& result) {
  if (!result.choice) return;
  const auto outcome = store.find(result.prepared.study.points[*result.choice].key);
  if (!outcome || outcome->code != ExitCode::success) return;
  const Json report = parsed_json(outcome->text);
  result.outside_calibration = report.value("outside_calibration", std::vector<std::string>());
  result.assumptions = report.value("assumptions", std::vector<std::string>());
}

}  // namespace

PreparedPlan prepare_plan(Plan plan, const PlanSimulator& simulator,
                          const std::filesystem::path& kept, const ChildLimits& limits,
                          const std::function<void(const SweepProgress&)>& progress) {
  PreparedPlan prepared;
  std::vector<Bound> bounds = bounds_of(plan.study, simulator, kept, limits, progress);
  const auto is_wrong = [](const Bound& bound) { return !bound.error.empty(); };
  if (std::ranges::all_of(bounds, is_wrong)) throw Error(bounds[0].code, bounds[0].error);
  check_names(plan.study, bounds);
  Study& study = plan.study;
  std::vector<Point> points = std::move(study.points);
  study.points.clear();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (bounds[i].error.empty() && !seen.insert(bounds[i].key).second) {
      ++prepared.duplicates;
      continue;
    }
    prepared.study.points.push_back({labels_of(study, points[i]), bounds[i].key});
    prepared.candidates.push_back({.point = study.points.size(),
                                   .options = options_of(study, points[i]),
                                   .bound = std::move(bounds[i])});
    study.points.push_back(std::move(points[i]));
  }
  prepared.study.identity = identity_of(study, simulator.simulator.program);
  prepared.study.study = study;
  prepared.plan = std::move(plan);
  check_objective(prepared);
  return prepared;
}

PlanResult run_plan(PreparedPlan prepared, const PlanSimulator& simulator, ResultStore& store,
                    const SweepOptions& options) {
  PlanResult result{.prepared = std::move(prepared),
                    .ranking = {},
                    .choice = {},
                    .would_change = {},
                    .steady = {}};
  PreparedPlan& found = result.prepared;
  const Objective& objective = found.plan.objective;
  Waves waves(found.study, simulator.simulator, store, options);
  std::size_t too_large = 0;
  const SearchTask task{.constraints = found.plan.constraints,
                        .objective = objective,
                        .simulate =
                            [&](const std::vector<std::size_t>& wave) {
                              std::vector<Simulated> all = waves(wave);
                              too_large += static_cast<std::size_t>(
                                  std::ranges::count(all, true, &Simulated::too_large));
                              return all;
                            },
                        .wave = found.plan.layouts ? kWaveOfLayouts : kWave,
                        .open = [&](std::size_t open) { waves.expect(open); }};
  search(found.candidates, task);
  const auto conclude = [&] {
    result.ranking = rank(found.candidates, objective);
    result.choice = choose(found.candidates, result.ranking, objective);
  };
  conclude();
  if (!found.plan.layouts) probe(found.candidates, probes(result), task);
  conclude();
  result.simulated = waves.done() - too_large;
  const Asking asking(found.study, simulator, store, options.limits);
  if (simulator.predict_with_errors) compare_under_common_errors(result, asking);
  result.would_change = changes(result);
  if (simulator.predict_if) add_what_ifs(result, asking);
  add_grounds(store, result);
  return result;
}

}  // namespace rehearse::inline planner
