#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "predict/predict.hpp"
#include "cluster/cluster.hpp"
#include "config/mistakes.hpp"
#include "planner/plan.hpp"
#include "profile/comm_profile.hpp"
#include "profile/compute_profile.hpp"
#include "study/study.hpp"

namespace rehearse {
namespace {

using File = std::filesystem::path;

std::string check_scenario(const File& file) {
  const Scenario scenario = read_scenario(file, {});
  if (Mistakes::current() == nullptr || Mistakes::current()->count() == 0)
    machine_of(scenario);
  return "a scenario";
}

/// Each point's scenario; what several points have alike is said once.
std::string check_study(const File& file) {
  const Study study = read_study(file, {});
  for (const Point& point : study.points) {
    if (study.base) read_part([&] { read_scenario(*scenario_at(study, point)); });
  }
  return fmt::format("a study of {} point{}", study.points.size(),
                     study.points.size() == 1 ? "" : "s");
}

bool can_be_read(const Study& study, const Point& point) {
  try {
    const Mistakes own;
    read_scenario(*scenario_at(study, point));
    return own.events() == 0;
  } catch (const Error&) {
    return false;
  }
}

/// What a search makes need not suit every candidate: it is a mistake where it suits none.
std::string check_plan(const File& file) {
  const Study study = read_plan(file, {}).study;
  const auto suits = [&](const Point& point) { return can_be_read(study, point); };
  if (study.base && !study.points.empty() && std::ranges::none_of(study.points, suits))
    read_part([&] { read_scenario(*scenario_at(study, study.points.front())); });
  return fmt::format("a plan of {} candidate{}", study.points.size(),
                     study.points.size() == 1 ? "" : "s");
}

/// Looks at what a file says it is, and reads it as that. The kind in words.
std::string check_file(const File& file) {
  const auto document = Document::load(file);
  const Value whole = document->root();
  const Map root = whole.as_map();
  const auto has = [&](const char* key) { return root.has(key); };
  if (has("scenario"))
    return has("objective") || has("search") ? check_plan(file) : check_study(file);
  if (has("model") || has("strategy")) {
    if (!has("schema")) return check_scenario(file);
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

/// What is wrong with a file.
std::optional<Error> wrong_with(const File& file, bool quiet) {
  std::string kind;
  Mistakes all;
  const bool is_right = read_part([&] { kind = check_file(file); });
  if (!is_right && all.count() == 0) throw InternalError("a mistake that cannot be told");
  if (!is_right) return Error(all.code(), all.text());
  if (!quiet) write_stdout(fmt::format("{}: {}, no mistakes\n", file.string(), kind));
  return std::nullopt;
}

}  // namespace

void check_command(const CheckCommand& command) {
  std::string text;
  ExitCode code = ExitCode::success;
  for (const File& file : command.files) {
    const std::optional<Error> wrong = wrong_with(file, command.quiet);
    if (!wrong) continue;
    text += (text.empty() ? "" : "\n\n") + std::string(wrong->what());
    if (code != ExitCode::input) code = wrong->code();
  }
  if (code != ExitCode::success) throw Error(code, text);
}

}  // namespace rehearse
