#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/quoting.hpp"
#include "config/fields.hpp"
#include "config/mistakes.hpp"
#include "profile/comm_profile.hpp"
#include "profile/profile_keys.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse::inline profile {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr std::int64_t kMostSegments = 64;

// --- reading

const Form<CollectiveKind>& kind_form() {
  static const Form<CollectiveKind> kForm =
      form::one_of(collective_names()).as(parse_collective_kind);
  return kForm;
}

Fields<CommSegment> segment_fields() {
  using S = CommSegment;
  return {required("latency", &S::latency, "What is paid once."),
          required("busbw", &S::busbw, "Bus bandwidth.", "nccl-tests")};
}

void check_segment(const Value& item, const std::vector<CommSegment>& segments) {
  if (segments.size() == 1) return;
  const CommSegment &low = segments[segments.size() - 2], &high = segments.back();
  if (!(high.latency > low.latency) || !(high.busbw > low.busbw))
    item.fail("expected a higher latency and a higher busbw than the segment before");
}

Fields<CommCurve> curve_fields() {
  using C = CommCurve;
  const Form<double> error = form::not_negative();
  return {required("collective", &C::kind, kind_form(), "The collective."),
          required("ranks", &C::ranks, form::integer(2, kMostRanks), "Ranks."),
          {{{"nodes", type::integer(1), "required", "Nodes."}},
           [](Map& map, C& curve) {
             curve.nodes = static_cast<int>(map.require("nodes").as_integer(1, curve.ranks));
           }},
          required("segments", &C::segments, form::list(form::map(segment_fields()), check_segment),
                   "Time = latency + bytes over busbw."),
          group<C>("fitted_on",
                   {required("smallest", &C::smallest, "The smallest."),
                    required("largest", &C::largest, "The largest.")},
                   "Sizes that were measured."),
          required("residual_median", &C::residual_median, error, "Error of the fit, median."),
          required("residual_max", &C::residual_max, error, "The largest."),
          // A curve of fewer than 8 sizes has no points to leave out.
          field("held_out_median", &C::held_out_median, error, "Error of points left out, median."),
          field("held_out_max", &C::held_out_max, error, "The largest."),
          field("error_p90_small", &C::error_p90_small, error, "90th percentile below 1 MiB."),
          field("error_p90_large", &C::error_p90_large, error, "90th percentile from 1 MiB on.")};
}

void check_curve(Map& map, CommCurve& curve) {
  if (curve.segments.empty()) map.require("segments").fail("expected at least one segment");
  if (curve.largest < curve.smallest)
    map.require("fitted_on").as_map().require("largest").fail("expected no less than smallest");
}

Fields<CommOverlap> overlap_fields() {
  using O = CommOverlap;
  return {required("collective", &O::kind, kind_form(), "The collective."),
          required("size", &O::size, form::size_above_0(), "Its bytes."),
          required("compute_slowdown", &O::compute_slowdown, form::positive(),
                   "Times as slow: compute."),
          required("comm_slowdown", &O::comm_slowdown, form::positive(),
                   "Times as slow: the collective.")};
}

void check_overlap(const Value& item, const std::vector<CommOverlap>& overlaps) {
  const CommOverlap& last = overlaps.back();
  const auto is_same = [&](const CommOverlap& other) {
    return other.kind == last.kind && other.size == last.size;
  };
  if (std::ranges::count_if(overlaps, is_same) > 1)
    item.fail("a second overlap of the same collective and size");
}

Fields<Transport> transport_fields() {
  using T = Transport;
  return {
      required("segments", &T::segments, form::integer(1, kMostSegments),
               "Parts of a chunk on the way.", "Gloo"),
      required("largest_segment", &T::largest_segment, form::size_above_0(), "The largest part.",
               "Gloo"),
      required("at_a_time", &T::at_a_time, form::integer(1, kMostSegments), "Collectives at once.",
               "Gloo"),
      required("efficiency", &T::efficiency, form::positive().in("at most 1"),
               "Payload over rate."),
      required("wake", &T::wake, "Until a thread works on what arrived."),
      required("per_message", &T::per_message, "A core's time for a segment."),
      silent("host_rate", &T::host_rate, "Bytes that a core handles per second."),
      silent("slice", &T::slice, "How long a thread keeps a core.").otherwise("-"),
      silent("queued", &T::queued, form::size_above_0(),
             "A connection's bytes in its port's queue.")
          .otherwise("200 kB"),
      required("measured_at", &T::measured_at, "Rate of the link."),
      required("efficiency_error", &T::efficiency_error, form::not_negative(),
               "Error of the efficiency."),
      required("host_error", &T::host_error, form::not_negative(), "Error of the host's share.")};
}

void check_transport(Map& map, Transport& transport) {
  if (transport.efficiency > 1)
    map.require("efficiency").fail("expected a share of the link's rate, at most 1");
}

bool same_place(const CommCurve& a, const CommCurve& b) {
  return a.kind == b.kind && a.ranks == b.ranks && a.nodes == b.nodes;
}

void check_place(const Value& item, const std::vector<CommCurve>& curves) {
  const auto is_same = [&](const CommCurve& other) { return same_place(curves.back(), other); };
  if (std::ranges::count_if(curves, is_same) > 1)
    item.fail("a second curve of the same collective, ranks and nodes");
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

/// `"2.23.4"`: its first two numbers.
std::pair<int, int> read_nccl(const Value& value) {
  std::pair<int, int> version{0, 0};
  char rest = 0;
  const std::string text = value.as_string();
  const int read = std::sscanf(text.c_str(), "%d.%d%c", &version.first, &version.second, &rest);
  if (read < 2 || (read == 3 && rest != '.' && rest != '+') || version.first < 1 ||
      version.second < 0)
    value.fail("expected a version of NCCL; got \"" + text + "\"",
               "write it as NCCL prints it, such as `nccl: \"2.23.4\"`");
  return version;
}

Fields<CommProfile> comm_profile_fields() {
  using P = CommProfile;
  return {required("name", &P::name, "Its name."),
          required("hardware", &P::hardware, "What it was measured on."),
          required("source", &P::source, "By whom and how."),
          required("curves", &P::curves,
                   form::list(form::map(curve_fields(), check_curve), check_place),
                   "One per collective, ranks and nodes."),
          field("nccl", &P::nccl, Form<std::pair<int, int>>{type::text("version"), read_nccl},
                "NCCL's version; another one here rescales the curves."),
          silent("overlap", &P::overlap, form::list(form::map(overlap_fields()), check_overlap),
                 "What compute and a collective cost each other."),
          field("transport", &P::transport, form::map(transport_fields(), check_transport),
                "Sockets of Gloo, measured between two nodes."),
          field("links", &P::links, Form<CommLinks>{type::map(), read_comm_links},
                "Links of the machine that the curves are of.")};
}

}  // namespace

std::vector<Key> comm_profile_keys() { return keys_of(comm_profile_fields()); }

CommProfile read_comm_profile(const Value& value) {
  Map map = value.as_map();
  if (map.has("kind")) {
    map.at_key("kind").fail("expected a profile of collectives, which states no kind",
                            "name a compute profile's folder under its gpu's `profiles:` instead");
  }
  const SoundPart part;
  const Value curves = map.require("curves");
  part.check();  // another kind of file has other keys
  const CommProfile profile = read_fields(map, comm_profile_fields());
  if (profile.curves.empty()) curves.fail("expected at least one curve");
  if (profile.links) check_links(map.require("links"), profile);
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
