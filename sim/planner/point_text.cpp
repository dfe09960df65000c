#include "planner/point_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "base/error.hpp"

namespace rehearse::inline planner {
namespace {

[[noreturn]] void fail_as_no_point(const std::string& text, const Study& study) {
  throw InputError(
      fmt::format("rehearse: error: --points: \"{}\" is no point of {}\n"
                  "remedy: give what --hand-out of the same plan printed",
                  text, study.name));
}

Point point_from(const std::string& text, const Study& study) {
  Point point;
  std::istringstream digits(text);
  for (std::string part; std::getline(digits, part, '.');) {
    const bool whole = !part.empty() && part.size() < 10 &&
                       part.find_first_not_of("0123456789") == std::string::npos;
    const std::size_t axis = point.size();
    if (!whole || axis >= study.axes.size()) fail_as_no_point(text, study);
    point.push_back(std::stoul(part));
    if (point.back() >= study.axes[axis].choices.size()) fail_as_no_point(text, study);
  }
  if (point.size() != study.axes.size()) fail_as_no_point(text, study);
  return point;
}

}  // namespace

std::string points_text(const std::vector<Point>& points) {
  std::vector<std::string> texts;
  texts.reserve(points.size());
  for (const Point& point : points) texts.push_back(fmt::format("{}", fmt::join(point, ".")));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::vector<Point> points_from(const std::string& text, const Study& study) {
  std::vector<Point> points;
  std::istringstream words(text);
  for (std::string word; words >> word;) points.push_back(point_from(word, study));
  return points;
}

}  // namespace rehearse::inline planner
