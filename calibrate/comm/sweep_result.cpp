#include "comm/sweep_result.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "profile/import.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

CollectiveKind kind_named(const std::string& name) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (to_string(kind) == name) return kind;
  }
  throw InternalError("internal error: a sweep of an unknown collective: " + name);
}

json to_object(const SweepPoint& point) {
  return {{"collective", to_string(point.kind)},
          {"size", point.size.value()},
          {"median", point.median.value()},
          {"p5", point.p5.value()},
          {"p95", point.p95.value()}};
}

json to_object(const SweepOverlap& overlap) {
  return {{"collective", to_string(overlap.kind)},
          {"size", overlap.size.value()},
          {"comm_alone", overlap.comm_alone.value()},
          {"comm_beside", overlap.comm_beside.value()},
          {"compute_alone", overlap.compute_alone.value()},
          {"compute_beside", overlap.compute_beside.value()}};
}

json to_object(const SweepCopy& copy) {
  return {{"to_device", copy.to_device},
          {"pinned", copy.pinned},
          {"size", copy.size.value()},
          {"median", copy.median.value()}};
}

Seconds seconds(const json& object, const char* key) {
  return Seconds(object.at(key).get<double>());
}
Bytes size_in(const json& object) { return Bytes(object.at("size").get<double>()); }

template <class T>
json to_array(const std::vector<T>& items) {
  json array = json::array();
  for (const T& item : items) array.push_back(to_object(item));
  return array;
}

std::string head(const SweepResult& result, const SweepProfileOptions& options) {
  std::string text =
      fmt::format("# Hardware: {}\n# Measured: {}, {} ranks on {} {}, {}\n# Made by: {}\n",
                  result.hardware, result.backend, result.ranks, result.nodes,
                  result.nodes == 1 ? "node" : "nodes", options.date, options.command);
  for (const SweepOverlap& one : result.overlaps) {
    fmt::format_to(
        std::back_inserter(text),
        "# Overlap: {} of {}: compute takes {:.2f} times as long beside it; it takes {:.2f} "
        "times as long beside compute\n",
        to_string(one.kind), format(one.size), one.compute_slowdown(), one.comm_slowdown());
  }
  for (const SweepCopy& one : result.copies) {
    fmt::format_to(std::back_inserter(text), "# Copy: {} memory {} the device, {}: {} ({})\n",
                   one.pinned ? "pinned" : "pageable", one.to_device ? "to" : "from",
                   format(one.size), format(one.median), format(one.size / one.median));
  }
  return text;
}

CommPoints points_of(const SweepResult& result, CollectiveKind kind, const std::string& name) {
  CommPoints measured;
  measured.file = name;
  for (const SweepPoint& point : result.points) {
    if (point.kind != kind) continue;
    measured.points.push_back({kind, result.ranks, result.nodes, point.size, point.median});
  }
  return measured;
}

}  // namespace

std::string to_json(const SweepResult& result) {
  return json{{"ranks", result.ranks},
              {"nodes", result.nodes},
              {"backend", result.backend},
              {"hardware", result.hardware},
              {"points", to_array(result.points)},
              {"overlaps", to_array(result.overlaps)},
              {"copies", to_array(result.copies)}}
      .dump();
}

SweepResult sweep_from_json(const std::string& text) {
  const json whole = json::parse(text);
  SweepResult result{
      whole.at("ranks"), whole.at("nodes"), whole.at("backend"), whole.at("hardware"), {}, {}, {}};
  for (const json& one : whole.at("points")) {
    result.points.push_back({kind_named(one.at("collective")), size_in(one), seconds(one, "median"),
                             seconds(one, "p5"), seconds(one, "p95")});
  }
  for (const json& one : whole.at("overlaps")) {
    result.overlaps.push_back({kind_named(one.at("collective")), size_in(one),
                               seconds(one, "comm_alone"), seconds(one, "comm_beside"),
                               seconds(one, "compute_alone"), seconds(one, "compute_beside")});
  }
  for (const json& one : whole.at("copies")) {
    result.copies.push_back(
        {one.at("to_device"), one.at("pinned"), size_in(one), seconds(one, "median")});
  }
  return result;
}

std::string comm_profile_file(const SweepResult& result, const SweepProfileOptions& options) {
  CommProfile profile{options.name,
                      result.hardware,
                      fmt::format("rehearse-calibrate, {}, {}", result.backend, options.date),
                      {}};
  std::string comments, reason;
  for (const CollectiveKind kind : kCollectiveKinds) {
    const CommPoints measured = points_of(result, kind, options.name);
    if (measured.points.empty()) continue;
    try {
      // One at a time: a collective that noise has spoilt must not take the others with it.
      const CommProfile fitted =
          fit_profile({profile.name, profile.hardware, profile.source}, {measured});
      profile.curves.push_back(fitted.curves.front());
    } catch (const InputError& error) {
      reason = error.what();
      comments += fmt::format("# Not fitted: {}\n", reason);
    }
  }
  if (profile.curves.empty())
    throw InputError(reason.empty() ? "error: a sweep without points" : reason);
  return head(result, options) + comments + to_yaml(profile);
}

std::string comm_points_table(const SweepResult& result) {
  std::string text = "hardware,ranks,nodes,collective,bytes,time_us\n";
  for (const SweepPoint& point : result.points) {
    fmt::format_to(std::back_inserter(text), "\"{}\",{},{},{},{:.0f},{:.3f}\n", result.hardware,
                   result.ranks, result.nodes, to_string(point.kind), point.size.value(),
                   point.median.value() * 1e6);
  }
  return text;
}

}  // namespace rehearse
