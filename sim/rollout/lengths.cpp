#include "rollout/lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "base/random.hpp"

namespace rehearse::inline rollout {
namespace {

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double sigma_of(const Lengths& lengths) {
  const double ratio = lengths.deviation / lengths.mean;
  return std::sqrt(std::log1p(ratio * ratio));
}

/// E[min(n, limit)] of a log-normal n.
double cut_mean(double mu, double sigma, double limit) {
  const double at = (std::log(limit) - mu) / sigma;
  return std::exp(mu + sigma * sigma / 2) * normal_below(at - sigma) + limit * normal_below(-at);
}

}  // namespace

double log_mean(const Lengths& lengths) {
  const double sigma = sigma_of(lengths);
  const double uncut = std::log(lengths.mean) - sigma * sigma / 2;
  if (lengths.limit <= 0) return uncut;
  if (lengths.mean > lengths.limit || (lengths.mean == lengths.limit && sigma > 0))
    throw std::invalid_argument(fmt::format("a mean of {:g} tokens is not below the limit of {:g}",
                                            lengths.mean, lengths.limit));
  if (sigma == 0) return uncut;
  double low = uncut, high = std::log(lengths.limit) + 10 * sigma;
  constexpr int kHalvings = 80;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (cut_mean(middle, sigma, lengths.limit) < lengths.mean ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<double> draw(const Lengths& lengths, std::size_t count, std::uint64_t seed,
                         std::string_view name, std::uint64_t step) {
  const double mu = log_mean(lengths), sigma = sigma_of(lengths);
  RandomStream stream = random_stream(seed, name, step);
  const boost::math::normal standard;
  std::vector<double> drawn(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double share = (static_cast<double>(i) + uniform01(stream)) / static_cast<double>(count);
    const double at = std::clamp(share, 1e-12, 1 - 1e-12);
    double length = std::exp(mu + sigma * boost::math::quantile(standard, at));
    if (lengths.limit > 0) length = std::min(length, lengths.limit);
    drawn[i] = std::max(1.0, std::round(length));
  }
  for (std::size_t i = count; i-- > 1;)
    std::swap(drawn[i],
              drawn[static_cast<std::size_t>(uniform01(stream) * static_cast<double>(i + 1))]);
  return drawn;
}

}  // namespace rehearse::inline rollout
