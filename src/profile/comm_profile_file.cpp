#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/quoting.hpp"
#include "config/mistakes.hpp"
#include "profile/comm_profile.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse::inline profile {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostSegments = 64;

// --- reading

CollectiveKind read_kind(const Value& value) {
  return parse_collective_kind(value.as_choice(collective_names()));
}

std::vector<CommSegment> read_segments(const Value& value) {
  std::vector<CommSegment> segments;
  for (const Value& item : value.as_list()) {
    Map map = item.as_map();
    segments.push_back(
        {map.require("latency").as_seconds(), map.require("busbw").as_bytes_per_second()});
    map.finish();
    if (segments.size() == 1) continue;
    const CommSegment &low = segments[segments.size() - 2], &high = segments.back();
    if (!(high.latency > low.latency) || !(high.busbw > low.busbw)) {
      item.fail("expected a higher latency and a higher busbw than the segment before");
    }
  }
  if (segments.empty()) value.fail("expected at least one segment");
  return segments;
}

CommCurve read_curve(const Value& value) {
  Map map = value.as_map();
  CommCurve curve;
  curve.kind = read_kind(map.require("collective"));
  curve.ranks = static_cast<int>(map.require("ranks").as_integer(2, kMostRanks));
  curve.nodes = static_cast<int>(map.require("nodes").as_integer(1, curve.ranks));
  curve.segments = read_segments(map.require("segments"));
  Map fitted = map.require("fitted_on").as_map();
  curve.smallest = fitted.require("smallest").as_bytes();
  const Value largest = fitted.require("largest");
  curve.largest = largest.as_bytes();
  if (curve.largest < curve.smallest) largest.fail("expected no less than smallest");
  fitted.finish();
  curve.residual_median = map.require("residual_median").as_non_negative_number();
  curve.residual_max = map.require("residual_max").as_non_negative_number();
  // A curve of fewer than 8 sizes has no points to leave out.
  curve.held_out_median = map.non_negative_number_or("held_out_median", 0);
  curve.held_out_max = map.non_negative_number_or("held_out_max", 0);
  curve.error_p90_small = map.non_negative_number_or("error_p90_small", 0);
  curve.error_p90_large = map.non_negative_number_or("error_p90_large", 0);
  map.finish();
  return curve;
}

CommOverlap read_overlap(const Value& value) {
  Map map = value.as_map();
  CommOverlap overlap;
  overlap.kind = read_kind(map.require("collective"));
  const Value size = map.require("size");
  overlap.size = size.as_bytes();
  if (!(overlap.size > Bytes(0))) size.fail("expected a size above zero; got " + size.shown());
  overlap.compute_slowdown = map.require("compute_slowdown").as_positive_number();
  overlap.comm_slowdown = map.require("comm_slowdown").as_positive_number();
  map.finish();
  return overlap;
}

std::vector<CommOverlap> read_overlaps(const Value& value) {
  std::vector<CommOverlap> overlaps;
  for (const Value& item : value.as_list()) {
    const CommOverlap overlap = read_overlap(item);
    if (std::any_of(overlaps.begin(), overlaps.end(), [&](const CommOverlap& other) {
          return other.kind == overlap.kind && other.size == overlap.size;
        })) {
      item.fail("a second overlap of the same collective and size");
    }
    overlaps.push_back(overlap);
  }
  return overlaps;
}

Transport read_transport(const Value& value) {
  Map map = value.as_map();
  Transport transport;
  transport.segments = static_cast<int>(map.require("segments").as_integer(1, kMostSegments));
  const Value largest = map.require("largest_segment");
  transport.largest_segment = largest.as_bytes();
  if (!(transport.largest_segment > Bytes(0))) {
    largest.fail("expected a size above zero; got " + largest.shown());
  }
  transport.at_a_time = static_cast<int>(map.require("at_a_time").as_integer(1, kMostSegments));
  const Value efficiency = map.require("efficiency");
  transport.efficiency = efficiency.as_positive_number();
  if (transport.efficiency > 1) efficiency.fail("expected a share of the link's rate, at most 1");
  transport.wake = map.require("wake").as_seconds();
  transport.per_message = map.require("per_message").as_seconds();
  if (const auto rate = map.optional("host_rate")) {
    transport.host_rate = rate->as_bytes_per_second();
  }
  if (const auto slice = map.optional("slice")) transport.slice = slice->as_seconds();
  if (const auto queued = map.optional("queued")) {
    transport.queued = queued->as_bytes();
    if (!(transport.queued > Bytes(0))) {
      queued->fail("expected a size above zero; got " + queued->shown());
    }
  }
  transport.measured_at = map.require("measured_at").as_bytes_per_second();
  transport.efficiency_error = map.require("efficiency_error").as_non_negative_number();
  transport.host_error = map.require("host_error").as_non_negative_number();
  map.finish();
  return transport;
}

bool same_place(const CommCurve& a, const CommCurve& b) {
  return a.kind == b.kind && a.ranks == b.ranks && a.nodes == b.nodes;
}

void check_links(const Value& where, const CommProfile& profile) {
  const bool between =
      std::ranges::any_of(profile.curves, [](const CommCurve& curve) { return curve.nodes > 1; });
  if (between && profile.links->nics == 0)
    where.fail("a curve crosses nodes, and the links name no NIC",
               "give it too, such as `nics: 4, nic: 100Gbps`");
}

// --- writing

std::string curve_text(const CommCurve& curve) {
  std::string text =
      fmt::format("  - collective: {}\n    ranks: {}\n    nodes: {}\n    segments:\n",
                  to_string(curve.kind), curve.ranks, curve.nodes);
  for (const CommSegment& s : curve.segments) {
    text += fmt::format("      - {{latency: {}us, busbw: {}}}\n", decimal(s.latency.value() * 1e6),
                        yaml_bytes_per_second(s.busbw));
  }
  text += fmt::format("    fitted_on: {{smallest: {}, largest: {}}}\n", yaml_bytes(curve.smallest),
                      yaml_bytes(curve.largest));
  text += fmt::format("    residual_median: {:.4f}\n    residual_max: {:.4f}\n",
                      curve.residual_median, curve.residual_max);
  if (curve.held_out_max > 0) {
    text += fmt::format("    held_out_median: {:.4f}\n    held_out_max: {:.4f}\n",
                        curve.held_out_median, curve.held_out_max);
    text += fmt::format("    error_p90_small: {:.4f}\n    error_p90_large: {:.4f}\n",
                        curve.error_p90_small, curve.error_p90_large);
  }
  return text;
}

std::string overlap_text(const CommOverlap& overlap) {
  return fmt::format(
      "  - {{collective: {}, size: {}, compute_slowdown: {:.4f}, comm_slowdown: {:.4f}}}\n",
      to_string(overlap.kind), yaml_bytes(overlap.size), overlap.compute_slowdown,
      overlap.comm_slowdown);
}

std::string transport_text(const Transport& transport) {
  std::string text = fmt::format(
      "transport:\n  segments: {}\n  largest_segment: {}\n  at_a_time: {}\n  efficiency: {:.4f}\n  "
      "wake: {}us\n"
      "  per_message: {}us\n",
      transport.segments, yaml_bytes(transport.largest_segment), transport.at_a_time,
      transport.efficiency, decimal(transport.wake.value() * 1e6),
      decimal(transport.per_message.value() * 1e6));
  if (transport.host_rate.value() > 0) {
    text += fmt::format("  host_rate: {}\n", yaml_bytes_per_second(transport.host_rate));
  }
  text += fmt::format("  queued: {}\n", yaml_bytes(transport.queued));
  if (transport.slice.value() > 0) {
    text += fmt::format("  slice: {}us\n", decimal(transport.slice.value() * 1e6));
  }
  return text + fmt::format("  measured_at: {}\n  efficiency_error: {:.4f}\n  host_error: {:.4f}\n",
                            yaml_bytes_per_second(transport.measured_at),
                            transport.efficiency_error, transport.host_error);
}

}  // namespace

namespace {

/// `"2.23.4"`: its first two numbers.
std::pair<int, int> read_nccl(const Value& value) {
  std::pair<int, int> version{0, 0};
  char rest = 0;
  const std::string text = value.as_string();
  const int read = std::sscanf(text.c_str(), "%d.%d%c", &version.first, &version.second, &rest);
  if (read < 2 || (read == 3 && rest != '.') || version.first < 1 || version.second < 0)
    value.fail("expected a version of NCCL; got \"" + text + "\"",
               "write it as NCCL prints it, such as `nccl: \"2.23.4\"`");
  return version;
}

}  // namespace

CommProfile read_comm_profile(const Value& value) {
  Map map = value.as_map();
  if (map.has("kind")) {
    map.at_key("kind").fail("expected a profile of collectives, which states no kind",
                            "name a compute profile's folder under its gpu's `profiles:` instead");
  }
  const SoundPart part;
  const Value curves = map.require("curves");
  part.check();  // another kind of file has other keys
  CommProfile profile;
  profile.name = map.require("name").as_string();
  profile.hardware = map.require("hardware").as_string();
  profile.source = map.require("source").as_string();
  for (const Value& item : curves.as_list()) {
    const CommCurve curve = read_curve(item);
    if (std::any_of(profile.curves.begin(), profile.curves.end(),
                    [&](const CommCurve& other) { return same_place(curve, other); })) {
      item.fail("a second curve of the same collective, ranks and nodes");
    }
    profile.curves.push_back(curve);
  }
  if (profile.curves.empty()) curves.fail("expected at least one curve");
  if (const auto overlap = map.optional("overlap")) profile.overlap = read_overlaps(*overlap);
  if (const auto transport = map.optional("transport")) {
    profile.transport = read_transport(*transport);
  }
  if (const auto links = map.optional("links")) {
    profile.links = read_comm_links(*links);
    check_links(*links, profile);
  }
  if (const auto version = map.optional("nccl")) profile.nccl = read_nccl(*version);
  map.finish();
  part.check();
  return profile;
}

std::string to_yaml(const CommProfile& profile) {
  std::string text =
      fmt::format("name: {}\nhardware: {}\nsource: {}\ncurves:\n", yaml_quoted(profile.name),
                  yaml_quoted(profile.hardware), yaml_quoted(profile.source));
  for (const CommCurve& curve : profile.curves) text += curve_text(curve);
  if (profile.links) text += fmt::format("links: {}\n", to_yaml(*profile.links));
  if (profile.nccl)
    text += fmt::format("nccl: \"{}.{}\"\n", profile.nccl->first, profile.nccl->second);
  if (!profile.overlap.empty()) text += "overlap:\n";
  for (const CommOverlap& overlap : profile.overlap) text += overlap_text(overlap);
  if (profile.transport) text += transport_text(*profile.transport);
  return text;
}

}  // namespace rehearse::inline profile
