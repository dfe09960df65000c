#include "profile/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "base/error.hpp"
#include "fit/segments.hpp"
#include "profile/points_table.hpp"

namespace rehearse::inline profile {
namespace {

using Place = std::tuple<CollectiveKind, int, int>;  ///< collective, ranks, nodes

CommCurve fit_curve(const Place& place, const std::vector<TimedSize>& points) {
  CommCurve curve;
  std::tie(curve.kind, curve.ranks, curve.nodes) = place;
  const SegmentFit fit = fit_segments(points);
  for (const Segment& s : fit.segments) {
    curve.segments.push_back({s.latency, s.rate * bus_factor(curve.kind, curve.ranks)});
  }
  curve.smallest = fit.residuals.front().size;
  curve.largest = fit.residuals.back().size;
  const FitErrors residual = summarize_errors(fit.residuals);
  curve.residual_median = residual.median;
  curve.residual_max = residual.max;
  if (fit.residuals.size() < 2 * kFewestSizes) return curve;
  const std::vector<PointError> errors = held_out_errors(points);
  const FitErrors held_out = summarize_errors(errors);
  curve.held_out_median = held_out.median;
  curve.held_out_max = held_out.max;
  curve.error_p90_small = std::max(summarize_errors(errors, Bytes(0), kLargeMessage).p90,
                                   summarize_errors(fit.residuals, Bytes(0), kLargeMessage).p90);
  curve.error_p90_large = std::max(summarize_errors(errors, kLargeMessage).p90,
                                   summarize_errors(fit.residuals, kLargeMessage).p90);
  return curve;
}

/// "all_reduce over 16 ranks on 2 nodes".
std::string words(const Place& place) {
  const auto& [kind, ranks, nodes] = place;
  return fmt::format("{} over {} ranks on {} {}", to_string(kind), ranks, nodes,
                     nodes == 1 ? "node" : "nodes");
}

/// One to three sizes are what acceptance tests have: a curve needs more.
void check_sizes(const Place& place, const std::vector<TimedSize>& points,
                 const std::string& file) {
  std::set<double> sizes;
  for (const TimedSize& point : points) sizes.insert(point.size.value());
  if (sizes.size() >= kFewestSizes) return;
  const double largest = *sizes.rbegin(), MiB = 1 << 20;
  throw InputError(fmt::format(
      "{}: error: {}: {} size{}, and a curve needs {}\nremedy: measure from small to large, as "
      "with -b 1M -e {} -f 2; or scale NCCL's model of the machine by it, as with --scale "
      "{}xaws_p5",
      file, words(place), sizes.size(), sizes.size() == 1 ? "" : "s", kFewestSizes,
      largest > 16 * MiB ? fmt::format("{:.0f}M", largest / MiB) : "16M", std::get<2>(place)));
}

std::string or_else(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

std::string commented(const std::string& key, const std::string& text) {
  return text.empty() ? "" : fmt::format("# {}: {}\n", key, text);
}

std::vector<std::string> of_all(const std::vector<CommPoints>& measured,
                                std::vector<std::string> CommPoints::*lines) {
  std::vector<std::string> all;
  for (const CommPoints& one : measured)
    for (const std::string& line : one.*lines) all.push_back(one.file + ": " + line);
  return all;
}

std::string profile_text(const std::vector<CommPoints>& measured, const ImportOptions& options) {
  const CommPoints& first = measured.front();
  const std::filesystem::path file = first.file;
  const ProfileIdentity identity{
      or_else(options.name, file.stem().string()),
      or_else(options.hardware, or_else(first.hardware, "unknown")),
      or_else(options.source, or_else(first.source, file.filename().string())), options.links};
  std::string head = commented("Hardware", identity.hardware) +
                     commented("Source", identity.source) + commented("Made by", options.command);
  for (const std::string& line : of_all(measured, &CommPoints::notes))
    head += commented("Note", line);
  for (const std::string& line : of_all(measured, &CommPoints::left_out))
    head += commented("Left out", line);
  return head + to_yaml(fit_profile(identity, measured));
}

ImportedProfile imported(const std::vector<CommPoints>& measured, const ImportOptions& options) {
  return {profile_text(measured, options), of_all(measured, &CommPoints::notes),
          of_all(measured, &CommPoints::left_out)};
}

}  // namespace

CommProfile fit_profile(const ProfileIdentity& identity, const std::vector<CommPoints>& measured) {
  std::map<Place, std::vector<TimedSize>> places;
  std::map<Place, std::string> files;
  for (const CommPoints& one : measured) {
    for (const CommPoint& p : one.points) {
      const Place place{p.kind, p.ranks, p.nodes};
      places[place].push_back({p.size, p.time});
      files.emplace(place, one.file);
    }
  }
  CommProfile profile{identity.name, identity.hardware, identity.source, {}};
  profile.links = identity.links;
  for (const auto& [place, points] : places) {
    check_sizes(place, points, files[place]);
    try {
      profile.curves.push_back(fit_curve(place, points));
    } catch (const std::invalid_argument& error) {
      throw InputError(fmt::format("{}: error: {}: {}", files[place], words(place), error.what()));
    }
  }
  return profile;
}

ImportedProfile import_nccl_tests(const std::vector<std::filesystem::path>& files,
                                  const ImportOptions& options) {
  check(!files.empty(), "an import has at least one file");
  std::vector<CommPoints> measured;
  measured.reserve(files.size());
  for (const auto& file : files) {
    CommPoints points = read_nccl_tests(file, options.nccl_tests);
    measured.push_back(options.completed ? options.completed(std::move(points)) : points);
  }
  return imported(measured, options);
}

ImportedProfile import_points(const std::vector<std::filesystem::path>& files,
                              const ImportOptions& options) {
  check(!files.empty(), "an import has at least one file");
  std::vector<CommPoints> measured;
  measured.reserve(files.size());
  for (const auto& file : files) measured.push_back(read_points(file));
  return imported(measured, options);
}

}  // namespace rehearse::inline profile
