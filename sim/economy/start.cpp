#include "economy/start.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace rehearse::inline economy {
namespace {

/// Of independent arrivals.
struct Moments {
  Seconds first, mean, last;
  Ends<Seconds> last_spread;
};

constexpr double kLow = 0.05, kHigh = 0.95;

Moments exponential(Seconds mean, int nodes) {
  double harmonic = 0;
  for (int k = nodes; k >= 1; --k) harmonic += 1.0 / k;
  // The last of N is there by t with probability (1 - exp(-t / mean))^N.
  const auto last = [&](double share) {
    return mean * -std::log(-std::expm1(std::log(share) / nodes));
  };
  return {mean / nodes, mean, mean * harmonic, {last(kLow), last(kHigh)}};
}

Moments uniform(Seconds latest, int nodes) {
  const auto last = [&](double share) { return latest * std::pow(share, 1.0 / nodes); };
  return {latest / (nodes + 1.0),
          latest / 2,
          latest * (nodes / (nodes + 1.0)),
          {last(kLow), last(kHigh)}};
}

Moments listed(const std::vector<Seconds>& at) {
  check(!at.empty(), "a start of no nodes");
  const auto [first, last] = std::ranges::minmax(at);
  const Seconds sum = std::accumulate(at.begin(), at.end(), Seconds(0));
  return {first, sum / static_cast<double>(at.size()), last, {last, last}};
}

Moments moments_of(const Arrivals& arrivals, int nodes) {
  switch (arrivals.kind) {
    case Arrivals::Kind::exponential:
      return exponential(arrivals.time, nodes);
    case Arrivals::Kind::uniform:
      return uniform(arrivals.time, nodes);
    case Arrivals::Kind::listed:
      break;
  }
  return listed(arrivals.at);
}

}  // namespace

StartForecast forecast_start(const StartOptions& options, int nodes) {
  const Moments arrive = moments_of(options.arrivals, nodes);
  StartForecast start{.all_there = arrive.last,
                      .all_there_spread = arrive.last_spread,
                      .mean_arrival = arrive.mean};
  if (options.elastic) {
    start.first_step = arrive.first;
    start.delay = arrive.mean;
    start.done_meanwhile = arrive.last - arrive.mean;
  } else {
    start.first_step = arrive.last;
    start.delay = arrive.last;
    start.mean_wait = arrive.last - arrive.mean;
  }
  return start;
}

}  // namespace rehearse::inline economy
