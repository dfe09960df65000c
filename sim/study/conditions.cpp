#include "study/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::inline study {
namespace {

std::size_t find_axis(const Value& name, const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) {
    if (axis.name == name.shown()) return names.size();
    names.push_back(axis.name);
  }
  const std::string near = nearest(name.shown(), names);
  name.fail(fmt::format("no such axis; the axes are {}", fmt::join(names, ", ")),
            near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
}

std::size_t find_choice(const Value& label, const Axis& axis) {
  std::vector<std::string> labels;
  for (const Axis::Choice& choice : axis.choices) labels.push_back(choice.label);
  const std::string named = label.as_choice(labels);
  return static_cast<std::size_t>(std::ranges::find(labels, named) - labels.begin());
}

std::set<std::size_t> read_choices(const Value& value, const Axis& axis) {
  std::set<std::size_t> choices;
  if (!value.is_list()) return {find_choice(value, axis)};
  for (const Value& label : value.as_list()) choices.insert(find_choice(label, axis));
  return choices;
}

}  // namespace

Conditions::Conditions(const std::optional<Value>& list, const std::vector<Axis>& axes) {
  if (!list) return;
  for (const Value& value : list->as_list()) {
    Condition condition{.where = value, .allowed = {}};
    Map map = value.as_map();
    for (const std::string& name : map.keys()) {
      const std::size_t axis = find_axis(map.at_key(name), axes);
      condition.allowed[axis] = read_choices(map.require(name), axes[axis]);
    }
    all_.push_back(std::move(condition));
  }
}

bool Conditions::fit(const Point& point) {
  bool any = false;
  for (Condition& condition : all_) {
    const bool fits = std::ranges::all_of(condition.allowed, [&](const auto& axis) {
      return axis.second.contains(point[axis.first]);
    });
    condition.met = condition.met || fits;
    any = any || fits;
  }
  return any;
}

void Conditions::check_all_met() const {
  for (const Condition& condition : all_) {
    if (!condition.met) condition.where.fail("no point fits this condition", "remove it");
  }
}

}  // namespace rehearse::inline study
