#pragma once

#include <string>
#include <vector>

#include "study/study.hpp"

namespace rehearse::inline planner {

/// Points by their choices along the study's axes: "0.3.1 4.2.0" for two of three axes each.
std::string points_text(const std::vector<Point>& points);
/// The same read. InputError if a text names no point of the study.
std::vector<Point> points_from(const std::string& text, const Study& study);

}  // namespace rehearse::inline planner
