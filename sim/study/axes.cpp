#include "study/axes.hpp"

#include <fmt/format.h>

#include <set>

#include "base/error.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline study {
namespace {

std::vector<Value> values_of(const Value& list) {
  const std::vector<Value> values = list.as_list();
  if (values.empty())
    list.fail("an axis without values leaves no points", "name some, or remove it");
  return values;
}

/// `{KEY: [...], KEY: [...]}`, lists of one length.
void read_zip(const Value& zip, Axis& axis) {
  Map map = zip.as_map();
  if (map.keys().empty()) zip.fail("expected keys that change together");
  for (const std::string& key : map.keys()) {
    axis.keys.push_back(map.at_key(key));
    const Value list = map.require(key);
    const std::vector<Value> values = values_of(list);
    if (axis.choices.empty()) axis.choices.resize(values.size());
    if (axis.choices.size() != values.size()) {
      list.fail(fmt::format("{} values; the first key of this axis has {}", values.size(),
                            axis.choices.size()),
                "give each key of a zip as many values");
    }
    for (std::size_t i = 0; i < values.size(); ++i) axis.choices[i].values.push_back(values[i]);
  }
}

void read_values(const Value& list, Axis& axis) {
  for (const Value& value : values_of(list))
    axis.choices.push_back({.label = "", .values = {value}});
}

void read_labels(const Value& list, Axis& axis) {
  const std::vector<Value> labels = list.as_list();
  if (labels.size() != axis.choices.size()) {
    list.fail(fmt::format("{} labels for {} values", labels.size(), axis.choices.size()));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    axis.choices[i].label = labels[i].as_string();
    if (axis.choices[i].label.empty()) labels[i].fail("an empty label");
  }
}

void label_by_values(Axis& axis) {
  for (Axis::Choice& choice : axis.choices) {
    for (const Value& value : choice.values) {
      choice.label += (choice.label.empty() ? "" : ", ") + label_of(value);
    }
  }
}

void check_labels(const Axis& axis) {
  std::set<std::string> seen;
  for (const Axis::Choice& choice : axis.choices) {
    if (seen.insert(choice.label).second) continue;
    choice.values.front().fail(
        fmt::format("two values of this axis are called \"{}\"", choice.label),
        "remove one, or tell them apart by labels");
  }
}

Axis read_axis(const Value& name, const Value& value) {
  Axis axis{.name = name.shown(), .keys = {}, .choices = {}};
  if (!value.is_map()) {
    axis.keys.push_back(name);
    read_values(value, axis);
    label_by_values(axis);
  } else {
    Map map = value.as_map();
    if (const auto zip = map.optional("zip")) {
      if (map.has("values")) map.at_key("values").fail("an axis has either values or a zip");
      read_zip(*zip, axis);
    } else {
      axis.keys.push_back(name);
      read_values(map.require("values"), axis);
    }
    if (const auto labels = map.optional("labels")) {
      read_labels(*labels, axis);
    } else {
      label_by_values(axis);
    }
    map.finish();
  }
  check_labels(axis);
  return axis;
}

}  // namespace

std::string flow_text(const Value& value) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (value.is_map()) {
    Map map = value.as_map();
    for (const std::string& key : map.keys()) add(key + ": " + flow_text(map.require(key)));
    return "{" + text + "}";
  }
  if (value.is_list()) {
    for (const Value& item : value.as_list()) add(flow_text(item));
    return "[" + text + "]";
  }
  return value.is_null() ? "null" : value.shown();
}

std::string label_of(const Value& value) {
  if (!value.is_map()) return flow_text(value);
  Map map = value.as_map();
  if (map.keys().size() != 1) return flow_text(value);
  const std::string key = map.keys().front();
  const Value inner = map.require(key);
  const bool empty = inner.is_map() && inner.as_map().keys().empty();
  return empty ? key : key + " " + flow_text(inner);
}

bool overlap(const std::string& path, const std::string& other) {
  return (path + ".").starts_with(other + ".") || (other + ".").starts_with(path + ".");
}

std::vector<Axis> read_axes(const Value& vary) {
  Map map = vary.as_map();
  if (map.keys().empty())
    vary.fail("expected at least one axis", "write it as cluster.nodes: [1, 2]");
  std::vector<Axis> axes;
  for (const std::string& name : map.keys()) {
    const Value value = map.require(name);
    read_part([&] { axes.push_back(read_axis(map.at_key(name), value)); });
  }
  return axes;
}

Axis seed_axis(const Value& seeds) {
  constexpr std::int64_t kMostSeeds = 100'000;
  std::string list;
  for (std::int64_t seed = 1, last = seeds.as_integer(1, kMostSeeds); seed <= last; ++seed) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", seed);
  }
  Map map = Document::parse(fmt::format("{{run.seed: [{}]}}", list), "seeds")->root().as_map();
  Axis axis = read_axis(map.at_key("run.seed"), map.require("run.seed"));
  axis.name = "seed";
  return axis;
}

void check_apart(const std::vector<Axis>& axes) {
  std::vector<std::pair<std::string, std::string>> set;  // by the axes so far: key and axis
  for (const Axis& axis : axes) {
    for (const Value& key : axis.keys) {
      const std::string path = key.shown();
      for (const auto& [other, name] : set) {
        if (!overlap(path, other) || path.starts_with(other + ".")) continue;
        key.fail(path == other ? fmt::format("\"{}\" varies already, in axis \"{}\"", path, name)
                               : fmt::format("would undo \"{}\" of axis \"{}\"", other, name),
                 path == other ? "let one axis vary it" : "name this axis first");
      }
      set.emplace_back(path, axis.name);
    }
  }
}

}  // namespace rehearse::inline study
