#include "convergence/run_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "convergence/observation.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr double kHeld = 0.9;

/// The value at a position from 1 to the number of values, which are in order.
double at_position(const std::vector<double>& ordered, double position) {
  const double below = std::floor(position);
  const auto index = static_cast<std::size_t>(below) - 1;
  const double next = ordered[std::min(index + 1, ordered.size() - 1)];
  return std::lerp(ordered[index], next, position - below);
}

double log_choose(std::size_t of, std::size_t some) {
  const auto log_factorial = [](std::size_t n) { return std::lgamma(static_cast<double>(n) + 1); };
  return log_factorial(of) - log_factorial(some) - log_factorial(of - some);
}

}  // namespace

RunEnd end_of(const Curve& curve, double trained_error) {
  return {curve.points.back().test_accuracy, has_failed(curve, trained_error)};
}

std::optional<FurtherRuns> further_runs(std::vector<double> ends) {
  if (ends.size() < 2) return std::nullopt;
  std::ranges::sort(ends);
  const auto whole = static_cast<double>(ends.size() + 1);
  const double out = std::max(1.0, whole * (1 - kHeld) / 2);
  return FurtherRuns{.share = 1 - 2 * out / whole,
                     .ends = {at_position(ends, out), at_position(ends, whole - out)}};
}

MeanEnd mean_of_clusters(const std::vector<std::vector<double>>& clusters) {
  MeanEnd result;
  double sum = 0;
  for (const auto& cluster : clusters) {
    for (const double end : cluster) sum += end;
    result.runs += cluster.size();
  }
  if (result.runs == 0) return result;
  const auto runs = static_cast<double>(result.runs);
  result.mean = sum / runs;
  double squares = 0;
  std::size_t count = 0;
  for (const auto& cluster : clusters) {
    if (cluster.empty()) continue;
    ++count;
    double off = 0;
    for (const double end : cluster) off += end - result.mean;
    squares += off * off;
  }
  if (count < 2) return result;
  const auto groups = static_cast<double>(count);
  result.error = std::sqrt(groups / (groups - 1) * squares) / runs;
  return result;
}

double fisher_exact(const Share& one, const Share& other) {
  check(one.some <= one.all && other.some <= other.all, "a share is of a whole");
  const std::size_t some = one.some + other.some;
  const auto log_chance = [&](std::size_t of_one) {
    return log_choose(one.all, of_one) + log_choose(other.all, some - of_one) -
           log_choose(one.all + other.all, some);
  };
  constexpr double kRounding = 1e-7;
  const double seen = log_chance(one.some) + kRounding;
  double sum = 0;
  const std::size_t least = some > other.all ? some - other.all : 0;
  for (std::size_t of_one = least; of_one <= std::min(some, one.all); ++of_one) {
    if (const double chance = log_chance(of_one); chance <= seen) sum += std::exp(chance);
  }
  return std::min(1.0, sum);
}

std::string verdict_of(const Share& failed, const std::string& what) {
  if (failed.some == 0) return "converges";
  if (failed.some == failed.all) return "diverges";
  return fmt::format("at the edge: {} of {} {} fail", failed.some, failed.all, what);
}

}  // namespace rehearse::inline convergence
