#include "profile/comm_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace rehearse {
namespace {

/// What a collective costs before its first step: NCCL's own model has 6.6 us for a ring with LL
/// (NCCL 2.28.7, src/graph/tuning.cc, baseLatencies). It stays when the number of steps changes.
constexpr Seconds kLaunch(6.6e-6);

/// Half-width of a derived collective. On eight H100s behind NVSwitch all_reduce reaches a busbw of
/// 480 GB/s through NVLink SHARP where reduce_scatter's ring reaches 362 GB/s (NVIDIA/nccl, issues
/// 1047 and 1083): it takes a third longer than the derivation says.
constexpr double kDerivedError = 0.35;

/// Where no point was held out (a fit of fewer than 8 sizes, or all of them small or all large):
/// twice its worst residual, and at least this.
constexpr double kUntestedError = 0.1;

bool splits_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::broadcast;
}

/// How unlike two placements are: 0 for the same ranks on the same nodes.
double distance(const CommCurve& curve, int ranks, int nodes) {
  const double of_nodes = std::abs(std::log(static_cast<double>(nodes) / curve.nodes));
  const double of_ranks =
      std::abs(std::log(static_cast<double>(ranks) / nodes * curve.nodes / curve.ranks));
  return of_nodes + of_ranks;
}

/// The curve of `kind` with the most similar placement, on one node for one node and on several for
/// several.
const CommCurve* nearest_curve(const std::vector<CommCurve>& curves, CollectiveKind kind, int ranks,
                               int nodes) {
  const CommCurve* nearest = nullptr;
  for (const CommCurve& curve : curves) {
    if (curve.kind != kind || (curve.nodes == 1) != (nodes == 1)) continue;
    if (!nearest || distance(curve, ranks, nodes) < distance(*nearest, ranks, nodes))
      nearest = &curve;
  }
  return nearest;
}

/// Steps that follow one another: around the ring inside a node, up and down the tree between nodes
/// (where the network's latency dwarfs that of the steps inside).
double steps(CollectiveKind kind, int ranks, int nodes) {
  if (kind == CollectiveKind::send_recv) return 1;
  const double phases = kind == CollectiveKind::all_reduce ? 2 : 1;
  return phases * (nodes == 1 ? ranks - 1 : std::log2(nodes));
}

std::string placement(int ranks, int nodes) {
  return nodes == 1 ? fmt::format("{}", ranks) : fmt::format("{} on {} nodes", ranks, nodes);
}

void add(std::string& reasons, const std::string& reason) {
  if (!reasons.empty()) reasons += "; ";
  reasons += reason;
}

/// Why the curve does not speak for this collective; empty where it does.
std::string reasons_outside(const CommCurve& curve, CollectiveKind kind, Bytes size, int ranks,
                            int nodes) {
  std::string reasons;
  if (curve.kind != kind)
    add(reasons, fmt::format("{} derived from {}", to_string(kind), to_string(curve.kind)));
  if (curve.ranks != ranks || curve.nodes != nodes) {
    const std::string wanted = nodes == 1 ? fmt::format("{} ranks", ranks)
                                          : fmt::format("{} ranks on {} nodes", ranks, nodes);
    add(reasons, fmt::format("{} from a curve of {}", wanted, placement(curve.ranks, curve.nodes)));
  }
  if (size > curve.largest)
    add(reasons, fmt::format("{} above the measured {}", format(size), format(curve.largest)));
  if (size < curve.smallest) {
    add(reasons, fmt::format("{} below the measured {}", format(size), format(curve.smallest)));
  }
  return reasons;
}

double half_width(const CommCurve& curve, CollectiveKind kind, Bytes size, bool outside) {
  double error = size >= kLargeMessage ? curve.error_p90_large : curve.error_p90_small;
  if (!(error > 0)) error = std::max(kUntestedError, 2 * curve.residual_max);
  if (outside) error *= 2;
  return curve.kind == kind ? error : std::max(error, kDerivedError);
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

std::optional<CommCost> CommProfile::cost(CollectiveKind kind, Bytes size, int ranks,
                                          int nodes) const {
  check(ranks >= 1 && nodes >= 1 && nodes <= ranks,
        "a collective has at least one rank on each of its nodes");
  if (ranks == 1) return CommCost{};
  const CommCurve* curve = nearest_curve(curves, kind, ranks, nodes);
  if (!curve && splits_all_reduce(kind))
    curve = nearest_curve(curves, CollectiveKind::all_reduce, ranks, nodes);
  if (!curve) return std::nullopt;

  const double growth = steps(kind, ranks, nodes) / steps(curve->kind, curve->ranks, curve->nodes);
  CommCost best;
  Seconds least(std::numeric_limits<double>::infinity());
  for (const CommSegment& segment : curve->segments) {
    const Seconds launch = std::min(segment.latency, kLaunch);
    const Seconds latency = launch + (segment.latency - launch) * growth;
    const Seconds transfer = size * bus_factor(kind, ranks) / segment.busbw;
    if (latency + transfer < least) {
      least = latency + transfer;
      best.latency = latency;
      best.transfer = transfer;
    }
  }
  best.outside = reasons_outside(*curve, kind, size, ranks, nodes);
  best.uncertainty = half_width(*curve, kind, size, !best.outside.empty());
  const double shifted = std::exp(shift * best.uncertainty);
  best.latency *= shifted;
  best.transfer *= shifted;
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

}  // namespace rehearse
