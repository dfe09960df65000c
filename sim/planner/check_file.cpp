#include "planner/check_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/cluster.hpp"
#include "config/mistakes.hpp"
#include "planner/plan.hpp"
#include "predict/predict.hpp"
#include "profile/comm_profile.hpp"
#include "profile/compute_profile.hpp"
#include "rollout/rl_step.hpp"
#include "study/study.hpp"

namespace rehearse::inline planner {
namespace {

using File = std::filesystem::path;

std::string as_scenario(const File& file) {
  if (const auto document = Document::load(file); asks_for_rl(*document)) {
    check_rl_question(*document);
    return "a scenario of post-training";
  }
  const Scenario scenario = read_scenario(file, {});
  if (Mistakes::current() == nullptr || Mistakes::current()->count() == 0) machine_of(scenario);
  return "a scenario";
}

/// Each point's scenario; what several points have alike is said once.
std::string as_study(const File& file) {
  const Study study = read_study(file, {});
  for (const Point& point : study.points) {
    if (study.base) read_part([&] { read_scenario(*scenario_at(study, point)); });
  }
  return fmt::format("a study of {} point{}", study.points.size(),
                     study.points.size() == 1 ? "" : "s");
}

bool can_be_read(const Study& study, const Point& point) {
  try {
    const FirstMistake only;
    read_scenario(*scenario_at(study, point));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// What a search makes need not suit every candidate: it is a mistake where it suits none.
std::string as_plan(const File& file) {
  const Study study = read_plan(file, {}).study;
  const auto suits = [&](const Point& point) { return can_be_read(study, point); };
  if (study.base && !study.points.empty() && std::ranges::none_of(study.points, suits))
    read_part([&] { read_scenario(*scenario_at(study, study.points.front())); });
  return fmt::format("a plan of {} candidate{}", study.points.size(),
                     study.points.size() == 1 ? "" : "s");
}

/// Looks at what a file says it is, and reads it as that. The kind in words.
std::string kind_of(const File& file) {
  const auto document = Document::load(file);
  const Value whole = document->root();
  const Map root = whole.as_map();
  const auto has = [&](const char* key) { return root.has(key); };
  if (has("scenario")) return has("objective") || has("search") ? as_plan(file) : as_study(file);
  if (has("model") || has("strategy")) {
    if (!has("schema")) return as_scenario(file);
    read_compute_profile(whole);
    return "a compute profile";
  }
  if (has("curves")) {
    read_comm_profile(whole);
    return "a profile of collectives";
  }
  if (has("node") || has("nodes") || has("groups") || has("use")) {
    read_cluster(whole);
    return "a cluster";
  }
  whole.mistake("no kind of file that rehearse reads",
                "a scenario has model, cluster and strategy; a study scenario and vary; a plan "
                "scenario and objective; a cluster nodes and node");
  return "";
}

}  // namespace

CheckedFile check_file(const std::filesystem::path& file) {
  CheckedFile checked;
  try {
    read_with_all_mistakes([&] { checked.kind = kind_of(file); });
  } catch (const Error& wrong) {
    if (wrong.code() != ExitCode::input && wrong.code() != ExitCode::missing) throw;
    checked.wrong = wrong;
  }
  return checked;
}

}  // namespace rehearse::inline planner
