#include "economy/goodput.hpp"

#include <algorithm>
#include <boost/math/special_functions/lambert_w.hpp>
#include <boost/math/tools/minima.hpp>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearse::inline economy {
namespace {

/// Of all trainings that are played: a second or two.
constexpr double kMostFailures = 1e7;

void add(const TrainingTimes& one, double weight, TrainingTimes& sum) {
  sum.total += one.total * weight;
  sum.checkpoints += one.checkpoints * weight;
  sum.lost += one.lost * weight;
  sum.recovery += one.recovery * weight;
  sum.waiting += one.waiting * weight;
  sum.slower += one.slower * weight;
  sum.failures += one.failures * weight;
  sum.written += one.written * weight;
  sum.node_time += one.node_time * weight;
}

/// Weibull's distribution with mean 1, by inversion.
double unit_gap(RandomStream& stream, double shape) {
  const double exponential = -std::log1p(-uniform01(stream));
  if (shape == 1) return exponential;
  return std::pow(exponential, 1 / shape) / std::tgamma(1 + 1 / shape);
}

Seconds percentile_of(std::vector<Seconds> totals, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(totals.size() - 1));
  std::ranges::nth_element(totals, totals.begin() + at);
  return totals[static_cast<std::size_t>(at)];
}

Goodput play_trainings(const Interruptions& job, Seconds interval, std::int64_t trainings,
                       std::uint64_t seed) {
  Goodput goodput;
  std::vector<Seconds> totals;
  for (std::int64_t i = 0; i < trainings; ++i) {
    RandomStream stream = random_stream(seed, "failures", static_cast<std::uint64_t>(i));
    const TrainingTimes one = play_training(
        job, interval, [&] { return unit_gap(stream, job.shape); },
        kMostFailures / static_cast<double>(trainings));
    add(one, 1 / static_cast<double>(trainings), goodput.mean);
    totals.push_back(one.total);
  }
  goodput.spread.low = percentile_of(totals, 0.05);
  goodput.spread.high = percentile_of(std::move(totals), 0.95);
  return goodput;
}

/// The derivative of (exp((t + C)/M) - 1) / t is 0 at t = M (1 + W(-exp(-C/M - 1))), W Lambert's
/// function. By convexity all segments of the best schedule are alike: one of the two whole numbers
/// of them beside that.
Seconds best_exact_interval(const Interruptions& job) {
  const Seconds mtbf = job.mean_time_between_failures();
  const double ratio = 1 + boost::math::lambert_w0(-std::exp(-(job.write / mtbf) - 1));
  const double most = std::max(1.0, std::floor(job.work / job.shortest_interval));
  const double segments = ratio > 0 ? std::min(most, job.work / (mtbf * ratio)) : most;
  const Seconds longer = job.work / std::max(1.0, std::floor(segments));
  const Seconds shorter = job.work / std::min(most, std::ceil(segments));
  const auto total = [&](Seconds interval) { return exact_expectation(job, interval).total; };
  return total(longer) <= total(shorter) ? longer : shorter;
}

/// Among the same failures, between an eighth of Young's and eight times his.
Seconds best_played_interval(const Interruptions& job, std::int64_t trainings, std::uint64_t seed) {
  constexpr double kSpan = 8;
  constexpr std::int64_t kPlayed = 200;
  constexpr int kBits = 10;
  const Seconds young = young_interval(job.write, job.mean_time_between_failures());
  const Seconds shortest =
      std::max(job.shortest_interval, job.asynchronous ? job.write : Seconds(0));
  const double low = std::log(std::clamp(young / kSpan, shortest, job.work).value());
  const double high = std::log(std::clamp(young * kSpan, shortest, job.work).value());
  const auto total = [&](double log_interval) {
    const Seconds interval(std::exp(log_interval));
    return play_trainings(job, interval, std::min(trainings, kPlayed), seed).mean.total.value();
  };
  if (low >= high) return Seconds(std::exp(low));
  std::uintmax_t most = 25;
  return Seconds(
      std::exp(boost::math::tools::brent_find_minima(total, low, high, kBits, most).first));
}

}  // namespace

bool has_exact_expectation(const Interruptions& job) {
  return job.shape == 1 && !job.asynchronous && job.on_failure == OnFailure::restart;
}

TrainingTimes exact_expectation(const Interruptions& job, Seconds interval) {
  check(has_exact_expectation(job), "a closed form that there is not");
  constexpr double kRoundOff = 1e-9;
  const double segments = std::max(1.0, std::ceil(job.work / interval - kRoundOff));
  const Seconds last = job.work - interval * (segments - 1);
  TrainingTimes times{.checkpoints = job.write * segments, .written = segments};
  if (!std::isinf(job.mean_life.value())) {
    const Seconds mtbf = job.mean_time_between_failures();
    const auto struck = [&](Seconds segment) { return std::expm1((segment + job.write) / mtbf); };
    const double failed = (segments - 1) * struck(interval) + struck(last);  // while it trains
    const double again = std::expm1(job.recovery() / mtbf);
    times.recovery = mtbf * again * failed;
    times.total = mtbf * (1 + again) * failed;
    times.failures = times.total / mtbf;
    times.lost = mtbf * failed - job.work - times.checkpoints;
  } else {
    times.total = job.work + times.checkpoints;
  }
  times.node_time = times.total * job.nodes;
  return times;
}

Goodput expect_goodput(const Interruptions& job, Seconds interval, std::int64_t trainings,
                       std::uint64_t seed) {
  Goodput goodput = play_trainings(job, interval, trainings, seed);
  if (!has_exact_expectation(job)) return goodput;
  goodput.mean = exact_expectation(job, interval);
  goodput.exact = true;
  return goodput;
}

Seconds young_interval(Seconds write, Seconds mtbf) {
  return Seconds(std::sqrt(2 * write.value() * mtbf.value()));
}

Seconds daly_interval(Seconds write, Seconds mtbf) {
  if (std::isinf(mtbf.value()) || write >= mtbf * 2) return mtbf;
  const double ratio = write / (mtbf * 2);
  return young_interval(write, mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - write;
}

Seconds best_interval(const Interruptions& job, std::int64_t trainings, std::uint64_t seed) {
  if (std::isinf(job.mean_life.value()) || job.work <= job.shortest_interval) return job.work;
  return has_exact_expectation(job) ? best_exact_interval(job)
                                    : best_played_interval(job, trainings, seed);
}

}  // namespace rehearse::inline economy
