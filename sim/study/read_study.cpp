#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/mistakes.hpp"
#include "config/record_set.hpp"
#include "scenario/file_kind.hpp"
#include "study/axes.hpp"
#include "study/conditions.hpp"
#include "study/study.hpp"

namespace rehearse::inline study {
namespace {

/// `--set cluster.nodes=8` in a study over cluster.nodes would have no effect.
void check_not_varied(const std::string& assignment, const std::vector<Axis>& axes) {
  const std::string path = assignment.substr(0, assignment.find('='));
  for (const Axis& axis : axes) {
    for (const Value& key : axis.keys) {
      if (!overlap(path, key.shown()) || key.shown().starts_with(path + ".")) continue;
      throw InputError(
          fmt::format("--set {}: error: the study varies \"{}\"\n"
                      "remedy: leave it out, or change the study",
                      assignment, key.shown()));
    }
  }
}

std::size_t product_size(const std::vector<Axis>& axes, const Value& vary) {
  std::size_t size = 1;
  for (const Axis& axis : axes) {
    if (size > kMostPoints / axis.choices.size()) {
      vary.fail(fmt::format("more than {} points", kMostPoints), "make several studies of it");
    }
    size *= axis.choices.size();
  }
  return size;
}

/// Point `number` of the product, the last axis fastest.
Point point_at(const std::vector<Axis>& axes, std::size_t number) {
  Point point(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    point[i] = number % axes[i].choices.size();
    number /= axes[i].choices.size();
  }
  return point;
}

std::vector<Point> points_of(const std::vector<Axis>& axes, Map& root, const Value& vary) {
  Conditions only(root.optional("only"), axes), exclude(root.optional("exclude"), axes);
  std::vector<Point> points;
  const std::size_t size = product_size(axes, vary);
  for (std::size_t number = 0; number < size; ++number) {
    Point point = point_at(axes, number);
    const bool left_out = exclude.fit(point);  // both are asked, so that each notes what it met
    const bool kept = only.fit(point) || only.empty();
    if (kept && !left_out) points.push_back(std::move(point));
  }
  only.check_all_met();
  exclude.check_all_met();
  if (points.empty()) vary.fail("the conditions leave no points", "relax only: or exclude:");
  return points;
}

}  // namespace

Study read_study(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const auto document = Document::load(file);
  return read_with_all_mistakes([&] {
    Map root = document->root().as_map();
    check_kind(root, FileKind::study);
    Study study = read_study(root, {.name = file.stem().string(), .overrides = overrides});
    root.finish();
    return study;
  });
}

Study read_study(Map& root, StudyFrame frame) {
  Study study;
  study.name = std::move(frame.name);
  study.description = root.string_or("description", "");
  const Value scenario = root.require("scenario");
  const auto vary = frame.needs_vary ? root.require("vary") : root.optional("vary");
  const bool has_axes = read_part([&] {
    if (vary) study.axes = read_axes(*vary);
    for (Axis& axis : frame.more_axes) study.axes.push_back(std::move(axis));
    if (const auto seeds = root.optional("seeds")) study.axes.push_back(seed_axis(*seeds));
    check_apart(study.axes);
  });
  root.optional("only");
  root.optional("exclude");
  if (has_axes) {
    read_part([&] {
      study.points = points_of(study.axes, root, vary.value_or(root.where()));
      for (const std::string& assignment : frame.overrides)
        check_not_varied(assignment, study.axes);
    });
  }
  read_part([&] {
    if (scenario.is_map()) {
      study.base = Document::of(scenario.as_map())->with_overrides(frame.overrides);
      return;
    }
    const std::filesystem::path base = scenario.folder() / scenario.as_string();
    std::error_code ignored;  // a name that is too long is no file
    if (!is_input_file(base) && !FilesKept::holds(base) &&
        !std::filesystem::exists(base, ignored)) {
      scenario.fail(fmt::format("no file \"{}\"", base.lexically_normal().string()));
    }
    study.base = Document::load(base.lexically_normal())->with_overrides(frame.overrides);
  });
  return study;
}

std::shared_ptr<const Document> scenario_at(const Study& study, const Point& point) {
  std::vector<Substitution> substitutions;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const Axis& axis = study.axes[i];
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      const Value& value = axis.choices[point[i]].values[k];
      if (!axis.leaves_as_is(value)) substitutions.push_back({axis.keys[k], value});
    }
  }
  return study.base->with_values(substitutions);
}

std::vector<std::string> labels_of(const Study& study, const Point& point) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < point.size(); ++i) {
    labels.push_back(study.axes[i].choices[point[i]].label);
  }
  return labels;
}

}  // namespace rehearse::inline study
