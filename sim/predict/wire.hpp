#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/child_pool.hpp"
#include "report/paced_updates.hpp"
#include "report/report.hpp"

namespace rehearse::inline prediction {

// What child processes return: typed at both ends, JSON on the way.
void to_json(nlohmann::json& json, const Headline& figures);
void from_json(const nlohmann::json& json, Headline& figures);
void to_json(nlohmann::json& json, const PacedUpdates& updates);
void from_json(const nlohmann::json& json, PacedUpdates& updates);
void to_json(nlohmann::json& json, const FittingChange& change);
void from_json(const nlohmann::json& json, FittingChange& change);

/// The result that a child returned; throws its Error, with the same code and text, where it
/// failed.
template <class Result>
Result result_of(const ChildEnd& end) {
  if (end.code != ExitCode::success) throw Error(end.code, end.text);
  return nlohmann::json::parse(end.text).get<Result>();
}

/// Results of work(0) to work(count - 1), each from a child process of its own. `ended` as of
/// in_child_processes.
template <class Work>
auto results_of_children(std::size_t count, std::size_t jobs, const Work& work,
                         const std::function<void(std::size_t)>& ended = nullptr) {
  std::vector<decltype(work(0))> results;
  for (const ChildEnd& end : in_child_processes(
           count, jobs, [&](std::size_t i) { return nlohmann::json(work(i)).dump(); }, ended))
    results.push_back(result_of<decltype(work(0))>(end));
  return results;
}

}  // namespace rehearse::inline prediction
