#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "study/result_store.hpp"
#include "view/views.hpp"

namespace rehearse::inline study {

struct PreparedStudy;

/// How many points a store has, and how they came out.
struct StudyCount {
  std::size_t points = 0, failed = 0, missing = 0;
  std::size_t to_do = 0;  ///< missing, or failed and to be tried again
};
StudyCount count_points(const ResultStore& store);

/// A row for each point that has come out, in the order of points: its number, `vary.AXIS` for each
/// axis, `exit_code` and `error` (its first line), and the columns of `rehearse run --format csv`.
std::string study_csv(const ResultStore& store);

/// `rehearse.study/1`: the study, its axes and its points, each with its labels and its report or
/// its error; null for both where a point has not come out. First what it comes to: `answer`,
/// `conclusions`, and the numbers of the points that are `fastest`, `cheapest` and the `knee`.
std::string study_json(const ResultStore& store);
/// Its JSON Schema.
nlohmann::ordered_json study_schema();

/// For people: what it comes to, and the main numbers, a line for each point; in brief the fastest
/// of many.
std::string study_table(const ResultStore& store, bool color, Detail detail = Detail::all);

/// Text of `--dry-run`: the points, and how many simulations they take.
std::string study_outline(const PreparedStudy& prepared);

}  // namespace rehearse::inline study
