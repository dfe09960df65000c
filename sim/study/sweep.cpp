#include "study/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "study/content_key.hpp"

namespace rehearse::inline study {
namespace {

/// The key of a scenario that can be read; else of its error, which becomes its outcome.
std::string key_of_point(const Study& study, const Point& point, const Simulator& simulator,
                         std::map<std::string, Outcome>& unreadable) {
  FilesRead files;
  Outcome wrong;
  try {
    const auto scenario = scenario_at(study, point);
    simulator.read(*scenario);
    return content_key(simulator.program, *scenario, files.files());
  } catch (const Error& error) {
    wrong = {error.code(), error.what()};
  }
  const std::string key = content_key(simulator.program + "\n" + wrong.text);
  unreadable.emplace(key, std::move(wrong));
  return key;
}

class Sweep {
 public:
  Sweep(const PreparedStudy& prepared, const Simulator& simulator, ResultStore& store,
        const SweepOptions& options)
      : prepared_(prepared), simulator_(simulator), store_(store), options_(options) {
    for (std::size_t i = 0; i < prepared.points.size(); ++i) {
      if (options.only == nullptr && options.shard.has(i)) add(i);
    }
    if (options.only != nullptr) std::ranges::for_each(*options.only, [this](auto i) { add(i); });
    progress_.to_simulate = todo_.size();
  }

  bool run() {
    tell();
    if (options_.elsewhere && !todo_.empty()) {
      options_.elsewhere(prepared_, todo_);
      std::erase_if(todo_, [this](std::size_t point) { return has_come(point); });
    }
    return run_children(
        todo_.size(), options_.limits, [this](std::size_t i) { return predict(todo_[i]); },
        [this](std::size_t i, ChildEnd end) { take(todo_[i], std::move(end)); });
  }

 private:
  /// A point: its outcome is known, or comes with that of a point before it, or is still to do.
  void add(std::size_t point) {
    const std::string& key = prepared_.points[point].key;
    ++progress_.all;
    if (points_by_key_[key]++ > 0) {
      if (const auto& known = known_.find(key); known != known_.end()) count(known->second, 1);
      return;
    }
    if (const auto outcome = known_outcome(key)) {
      known_[key] = outcome->code;
      count(outcome->code, 1);
    } else {
      todo_.push_back(point);
    }
  }

  std::optional<Outcome> known_outcome(const std::string& key) {
    std::optional<Outcome> outcome = store_.find(key);
    if (outcome && outcome->is_final()) return outcome;
    if (const auto wrong = prepared_.unreadable.find(key); wrong != prepared_.unreadable.end()) {
      outcome = wrong->second;
    } else if (options_.cache != nullptr) {
      outcome = options_.cache->find(key);
      if (outcome && outcome->code != ExitCode::success) outcome.reset();
    } else {
      outcome.reset();
    }
    if (outcome) store_.store(key, *outcome);
    return outcome;
  }

  void count(ExitCode code, std::size_t points) {
    progress_.done += points;
    if (code != ExitCode::success) progress_.failed += points;
  }

  /// Whether someone else has simulated a point. What was killed elsewhere is tried here.
  bool has_come(std::size_t point) {
    const std::string& key = prepared_.points[point].key;
    const std::optional<Outcome> outcome = store_.find(key);
    if (!outcome || !outcome->is_final()) return false;
    ++progress_.simulated;
    count(outcome->code, points_by_key_[key]);
    tell();
    return true;
  }

  void tell() const {
    if (options_.progress) options_.progress(progress_);
  }

  std::string predict(std::size_t point) const {
    const auto scenario = scenario_at(prepared_.study, prepared_.study.points[point]);
    return of_its_key(prepared_.points[point].key, simulator_.program, *scenario,
                      [&] { return simulator_.predict(*scenario); });
  }

  void take(std::size_t point, ChildEnd end) {
    const std::string& key = prepared_.points[point].key;
    const Outcome outcome{end.code, std::move(end.text)};
    store_.store(key, outcome);
    if (options_.cache != nullptr && outcome.code == ExitCode::success) {
      options_.cache->store(key, outcome);
    }
    ++progress_.simulated;
    count(outcome.code, points_by_key_[key]);
    tell();
  }

  const PreparedStudy& prepared_;
  const Simulator& simulator_;
  ResultStore& store_;
  const SweepOptions& options_;
  std::vector<std::size_t> todo_;  ///< the first points of their contents
  std::map<std::string, std::size_t> points_by_key_;
  std::map<std::string, ExitCode> known_;
  SweepProgress progress_;
};

}  // namespace

PreparedStudy prepare(Study study, const Simulator& simulator) {
  PreparedStudy prepared;
  for (const Point& point : study.points) {
    prepared.points.push_back(
        {labels_of(study, point), key_of_point(study, point, simulator, prepared.unreadable)});
  }
  const bool all_wrong = std::ranges::all_of(prepared.points, [&](const StudyPoint& point) {
    return prepared.unreadable.contains(point.key);
  });
  if (all_wrong) {
    const Outcome& first = prepared.unreadable.at(prepared.points.front().key);
    throw Error(first.code, first.text);
  }
  prepared.identity = {.program = simulator.program,
                       .study = study.name,
                       .description = study.description,
                       .scenario = std::filesystem::path(study.base->name()).filename().string(),
                       .axes = {}};
  for (const Axis& axis : study.axes) prepared.identity.axes.push_back(axis.name);
  prepared.study = std::move(study);
  return prepared;
}

std::string of_its_key(const std::string& key, const std::string& program, const Document& scenario,
                       const std::function<std::string()>& work) {
  const FilesRead read;
  std::string text = work();
  if (content_key(program, scenario, read.files()) == key) return text;
  throw MissingError(
      fmt::format("{}: error: a file that this scenario reads has changed since its key was made\n"
                  "remedy: the same command simulates it as it is now",
                  scenario.name()));
}

bool sweep(const PreparedStudy& prepared, const Simulator& simulator, ResultStore& store,
           const SweepOptions& options) {
  return Sweep(prepared, simulator, store, options).run();
}

}  // namespace rehearse::inline study
