#include "predict/scaled_points.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "fit/segments.hpp"
#include "predict/predicted_collective.hpp"

namespace rehearse::inline prediction {
namespace {

using Measured = std::tuple<CollectiveKind, int, int>;  ///< collective, ranks, nodes

/// Sizes of a completed curve, each eight times the one before: fewer than are held out against
/// each other, for nothing of them was measured but the last.
constexpr int kSizes = 7, kApart = 8;

void check_machine(const CommPoint& one, const Cluster& machine) {
  const auto ranks = static_cast<int>(machine.gpu_count()),
             nodes = static_cast<int>(machine.node_count());
  if (one.kind == CollectiveKind::send_recv || (one.ranks == ranks && one.nodes == nodes)) return;
  throw InputError(fmt::format(
      "--scale: error: {} has {} ranks on {} nodes, and the log {} on {}\nremedy: name the machine "
      "of the log, as in --scale {}xaws_p5",
      machine.name, ranks, nodes, one.ranks, one.nodes, one.nodes));
}

/// Predicted times at the sizes of a curve that ends with `largest`, the smallest first.
std::vector<CommPoint> predicted(const CommPoint& largest, const Cluster& machine) {
  const double smallest = largest.size.value() / std::pow(kApart, kSizes - 1);
  const PredictedCollective table =
      predicted_collective(machine, largest.kind, Bytes(smallest), largest.size);
  std::vector<CommPoint> points;
  const auto step = static_cast<std::size_t>(std::lround(std::log2(kApart)));
  for (std::size_t i = 0; i < table.rows.size(); i += step) {
    CommPoint& point = points.emplace_back(largest);
    point.size = table.rows[i].size;
    point.time = table.rows[i].cost.total();
  }
  return points;
}

/// Puts the points of one curve in the place of what was measured of it.
std::string complete(const CommPoint& largest, std::size_t sizes, const Cluster& machine,
                     std::vector<CommPoint>& points) {
  check_machine(largest, machine);
  std::vector<CommPoint> curve = predicted(largest, machine);
  const Seconds start = curve.front().time, grown = curve.back().time - start;
  if (largest.time <= start || grown <= Seconds(0))
    throw InputError(fmt::format(
        "--scale: error: {} in {} is less than {} takes to start\nremedy: measure a larger size",
        format(largest.size), format(largest.time), machine.name));
  const double factor = (largest.time - start) / grown;
  for (CommPoint& point : curve) {
    point.time = start + factor * (point.time - start);
    points.push_back(point);
  }
  return fmt::format(
      "{} over {} ranks on {} nodes: {} size{} measured; NCCL's model of {} at {:.3g} times its "
      "rate "
      "of large messages, so that {} takes {}",
      to_string(largest.kind), largest.ranks, largest.nodes, sizes, sizes == 1 ? "" : "s",
      machine.name, 1 / factor, format(largest.size), format(largest.time));
}

}  // namespace

CommPoints completed(CommPoints measured, const Cluster& machine) {
  std::map<Measured, std::map<double, CommPoint>> places;
  for (const CommPoint& one : measured.points)
    places[{one.kind, one.ranks, one.nodes}].insert_or_assign(one.size.value(), one);
  std::vector<CommPoint> points;
  for (const auto& [place, by_size] : places) {
    if (by_size.size() < kFewestSizes) {
      measured.notes.push_back(complete(by_size.rbegin()->second, by_size.size(), machine, points));
      continue;
    }
    for (const CommPoint& one : measured.points)
      if (Measured{one.kind, one.ranks, one.nodes} == place) points.push_back(one);
  }
  measured.points = std::move(points);
  return measured;
}

}  // namespace rehearse::inline prediction
