#include "profile/comm_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace rehearse::inline profile {
namespace {

/// Where no point was held out (a fit of fewer than 8 sizes, or all of them small or all large):
/// twice its worst residual, and at least this.
constexpr double kUntestedError = 0.1;

/// How unlike two placements are: 0 for the same ranks on the same nodes.
double distance(const CommCurve& curve, int ranks, int nodes) {
  const double of_nodes = std::abs(std::log(static_cast<double>(nodes) / curve.nodes));
  const double of_ranks =
      std::abs(std::log(static_cast<double>(ranks) / nodes * curve.nodes / curve.ranks));
  return of_nodes + of_ranks;
}

}  // namespace

Seconds Transport::host_work(Bytes size) const {
  return host_rate.value() > 0 ? per_message + size / host_rate : per_message;
}

Transport Transport::shifted(double shift) const {
  const double link = std::exp(shift * efficiency_error), host = std::exp(shift * host_error);
  Transport other = *this;
  other.efficiency /= link;
  other.wake *= host;
  other.per_message *= host;
  other.host_rate = host_rate * (1 / host);
  return other;
}

int Transport::segments_of(Bytes chunk) const {
  const double needed = std::ceil(chunk / largest_segment);
  return std::max(segments, static_cast<int>(needed));
}

CommCost CommCurve::cost(Bytes size) const {
  check(!segments.empty(), "a curve without a segment");
  CommCost best;
  Seconds least(std::numeric_limits<double>::infinity());
  for (const CommSegment& segment : segments) {
    const Seconds transfer = size * bus_factor(kind, ranks) / segment.busbw;
    if (segment.latency + transfer >= least) continue;
    least = segment.latency + transfer;
    best = {segment.latency, transfer};
  }
  return best;
}

double CommCurve::uncertainty(Bytes size) const {
  double error = size >= kLargeMessage ? error_p90_large : error_p90_small;
  if (!(error > 0)) error = std::max(kUntestedError, 2 * residual_max);
  return holds(size) ? error : 2 * error;
}

std::optional<CommCost> CommProfile::cost(CollectiveKind kind, Bytes size, int ranks,
                                          int nodes) const {
  check(ranks >= 1 && nodes >= 1 && nodes <= ranks,
        "a collective has at least one rank on each of its nodes");
  if (ranks == 1) return CommCost{};
  const CommCurve* curve = nearest(kind, ranks, nodes);
  if (!curve || curve->ranks != ranks || curve->nodes != nodes) return std::nullopt;
  return curve->cost(size);
}

const CommCurve* CommProfile::nearest(CollectiveKind kind, int ranks, int nodes) const {
  const CommCurve* best = nullptr;
  for (const CommCurve& curve : curves) {
    if (curve.kind != kind || (curve.nodes == 1) != (nodes == 1)) continue;
    if (!best || distance(curve, ranks, nodes) < distance(*best, ranks, nodes)) best = &curve;
  }
  return best;
}

std::optional<CommOverlap> CommProfile::overlap_of(CollectiveKind kind, Bytes size) const {
  const bool of_kind = std::any_of(overlap.begin(), overlap.end(),
                                   [kind](const CommOverlap& one) { return one.kind == kind; });
  const auto ratio = [size](const CommOverlap& one) {
    return std::max(one.size / size, size / one.size);
  };
  std::optional<CommOverlap> nearest;
  for (const CommOverlap& one : overlap) {
    if (of_kind && one.kind != kind) continue;
    const bool nearer = !nearest || ratio(one) < ratio(*nearest) ||
                        (ratio(one) == ratio(*nearest) && one.size < nearest->size);
    if (nearer) nearest = one;
  }
  return nearest;
}

}  // namespace rehearse::inline profile
