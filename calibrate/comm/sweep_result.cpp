#include "comm/sweep_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "base/error.hpp"
#include "profile/import.hpp"
#include "profile/transport_fit.hpp"

namespace rehearse::inline calibrate {
namespace {

std::string head(const SweepResult& result, const SweepProfileOptions& options) {
  std::string text =
      fmt::format("# Hardware: {}\n# Measured: {}, {} ranks on {} {}, {}\n# Made by: {}\n",
                  result.hardware, result.backend, result.ranks, result.nodes,
                  result.nodes == 1 ? "node" : "nodes", options.date, options.command);
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

std::optional<Transport> transport_of(const SweepResult& result,
                                      const SweepProfileOptions& options) {
  const BytesPerSecond rate = options.link_rate;
  if (!(rate > BytesPerSecond(0))) return std::nullopt;
  if (result.backend != "gloo" || result.nodes != result.ranks) {
    throw InputError(
        "error: --link-rate: only Gloo's transport between nodes of one rank is known");
  }
  std::vector<TransportPoint> rings;
  for (const SweepPoint& point : result.points) {
    if (point.kind == CollectiveKind::all_reduce)
      rings.push_back({point.size, point.median, point.host});
  }
  try {
    TransportRules rules = kGlooRules;
    rules.slice = options.slice;
    if (options.window) rules.queued = std::min(rules.queued, *options.window);
    return fit_transport(rings, result.ranks, rate, rules);
  } catch (const std::invalid_argument& error) {
    throw InputError(fmt::format("error: --link-rate: all_reduce has {}", error.what()));
  }
}

std::string source_of(const SweepResult& result, const SweepProfileOptions& options) {
  return fmt::format("rehearse-calibrate, {}, {}", result.backend, options.date);
}

}  // namespace

std::string comm_profile_file(const SweepResult& result, const SweepProfileOptions& options) {
  CommProfile profile{options.name, result.hardware, source_of(result, options), {}, {}, {}};
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
  for (const SweepOverlap& one : result.overlaps) {
    profile.overlap.push_back({one.kind, one.size, one.compute_slowdown(), one.comm_slowdown()});
  }
  profile.transport = transport_of(result, options);
  return head(result, options) + comments + to_yaml(profile);
}

std::string comm_points_table(const SweepResult& result, const SweepProfileOptions& options) {
  std::string text = "hardware,ranks,nodes,collective,bytes,time_us,source\n";
  for (const SweepPoint& point : result.points) {
    fmt::format_to(std::back_inserter(text), "\"{}\",{},{},{},{:.0f},{:.3f},\"{}\"\n",
                   result.hardware, result.ranks, result.nodes, to_string(point.kind),
                   point.size.value(), point.median.value() * 1e6, source_of(result, options));
  }
  return text;
}

}  // namespace rehearse::inline calibrate
