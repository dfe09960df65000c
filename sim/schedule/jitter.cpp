// What chance does to a schedule: how long computations take, and which ranks take part.
#include "schedule/jitter.hpp"

#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <cmath>

#include "base/random.hpp"

namespace rehearse::inline schedule {
namespace {

/// Standard deviation of the logarithm of an operation's time where jitter is measured; 0 where it
/// always takes as long.
double log_deviation(const Schedule& schedule, const Compute& compute) {
  if (!compute.jittered) return 0;
  // A lognormal's quartiles are exp(-q sigma) and exp(q sigma) times its median.
  constexpr double kQuartile = 0.6744897501960817;
  const double spread = std::max(compute.spread, schedule.jitter.least_spread);
  return std::asinh(spread / 2) / kQuartile;
}

}  // namespace

double step_draw(const Schedule& schedule, std::size_t rank, std::uint32_t step) {
  const Jitter& jitter = schedule.jitter;
  const bool measured = jitter.distribution == Jitter::Distribution::measured;
  if (jitter.distribution == Jitter::Distribution::none || (measured && jitter.drift == 0))
    return 1;
  RandomStream stream = random_stream(schedule.seed, "jitter", rank, step);
  if (measured) {
    boost::random::normal_distribution<double> drift(0, jitter.drift);
    return std::exp(drift(stream));
  }
  if (jitter.distribution == Jitter::Distribution::exponential)
    return (1 - jitter.cv) - jitter.cv * std::log1p(-uniform01(stream));
  // A lognormal of mean 1: sigma^2 = ln(1 + cv^2), mu = -sigma^2 / 2.
  const double variance = std::log1p(jitter.cv * jitter.cv);
  boost::random::normal_distribution<double> normal(-variance / 2, std::sqrt(variance));
  return std::exp(normal(stream));
}

double compute_factor(const Schedule& schedule, RankId rank, std::uint32_t step) {
  return schedule.ranks[rank.index()].slowdown * step_draw(schedule, rank.index(), step);
}

double compute_variation(const Schedule& schedule) {
  if (schedule.jitter.distribution != Jitter::Distribution::measured) return schedule.jitter.cv;
  double most = 0;
  for (const Program& program : schedule.programs) {
    double mean = 0, variance = 0;
    for (const Op& op : program.ops) {
      const auto* compute = std::get_if<Compute>(&op.work);
      if (!compute) continue;
      // A lognormal of median d has mean m = d exp(s^2 / 2) and variance m^2 (exp(s^2) - 1).
      const double square = std::pow(log_deviation(schedule, *compute), 2);
      const double own = compute->duration.value() * std::exp(square / 2);
      mean += own;
      variance += own * own * std::expm1(square);
    }
    // One lognormal factor more, which all operations of a step have in common.
    const double square = std::exp(std::pow(schedule.jitter.drift, 2));
    if (mean > 0) most = std::max(most, std::sqrt(square * (1 + variance / (mean * mean)) - 1));
  }
  return most;
}

double operation_factor(const Schedule& schedule, RankId rank, OpId op, std::uint32_t iteration) {
  if (schedule.jitter.distribution != Jitter::Distribution::measured) return 1;
  const auto* compute = std::get_if<Compute>(&schedule.program_of(rank).ops[op.index()].work);
  if (!compute || !compute->jittered) return 1;
  RandomStream stream = random_stream(random_stream(schedule.seed, "operation", op.index())(),
                                      "operation", rank.index(), iteration);
  boost::random::normal_distribution<double> normal(0, log_deviation(schedule, *compute));
  return std::exp(normal(stream));
}

bool steps_alike(const Jitter& jitter) {
  constexpr double kAlike = 0.01;
  return jitter.distribution == Jitter::Distribution::none ||
         (jitter.distribution != Jitter::Distribution::measured && jitter.cv <= kAlike);
}

std::vector<bool> participants(const Schedule& schedule, std::uint32_t iteration) {
  std::vector<bool> present(schedule.ranks.size(), true);
  if (schedule.sampled_ranks == 0) return present;
  std::vector<std::size_t> drawn_from;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    if (schedule.ranks[r].place.gpu >= 0 && schedule.ranks[r].job == 0) drawn_from.push_back(r);
  RandomStream stream = random_stream(schedule.seed, "participants", iteration);
  for (std::size_t left = drawn_from.size(); left > schedule.sampled_ranks; --left) {
    const auto drawn = static_cast<std::size_t>(uniform01(stream) * static_cast<double>(left));
    present[drawn_from[drawn]] = false;
    drawn_from[drawn] = drawn_from[left - 1];
  }
  return present;
}

}  // namespace rehearse::inline schedule
