#include "convergence/staleness.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number.hpp"
#include "convergence/staleness_bound.hpp"

namespace rehearse::inline convergence {

double Staleness::mean() const {
  double sum = 0;
  for (std::size_t k = 0; k < share.size(); ++k) sum += static_cast<double>(k) * share[k];
  return sum;
}

double Staleness::deviation() const {
  const double center = mean();
  double sum = 0;
  for (std::size_t k = 0; k < share.size(); ++k) {
    const double off = static_cast<double>(k) - center;
    sum += off * off * share[k];
  }
  return std::sqrt(sum);
}

std::size_t Staleness::percentile(double part) const {
  constexpr double kRounding = 1e-12;  // of the sum of shares
  double seen = 0;
  for (std::size_t k = 0; k < share.size(); ++k) {
    seen += share[k];
    if (seen >= part - kRounding) return k;
  }
  return max();
}

Staleness constant_staleness(std::size_t updates) {
  Staleness staleness{std::vector<double>(updates + 1)};
  staleness.share.back() = 1;
  return staleness;
}

Staleness nearly_constant_staleness(double mean) {
  check(mean >= 0 && std::isfinite(mean), "staleness is not negative");
  const double below = std::floor(mean);
  Staleness staleness = constant_staleness(static_cast<std::size_t>(below));
  if (mean == below) return staleness;
  staleness.share.back() = below + 1 - mean;
  staleness.share.push_back(mean - below);
  return staleness;
}

Staleness geometric_staleness(double mean) {
  check(mean >= 0 && std::isfinite(mean), "staleness is not negative");
  constexpr double kRest = 1e-12;
  const double q = mean / (1 + mean);
  Staleness staleness{{}};
  double rest = 1;
  do {
    staleness.share.push_back(rest * (1 - q));
    rest *= q;
  } while (rest > kRest);
  for (double& share : staleness.share) share /= 1 - rest;
  return staleness;
}

Staleness counted_staleness(const StalenessHistogram& histogram) {
  check(!histogram.empty(), "a histogram of staleness has counts");
  Staleness staleness{std::vector<double>(std::size_t{histogram.rbegin()->first} + 1)};
  double updates = 0;
  for (const auto& [value, count] : histogram) updates += static_cast<double>(count);
  for (const auto& [value, count] : histogram)
    staleness.share[value] = static_cast<double>(count) / updates;
  return staleness;
}

namespace {

std::optional<double> staleness_number(const std::string& text) {
  const std::optional<double> number = decimal_number(text);
  return number && *number >= 0 && *number <= kMostStaleness ? number : std::nullopt;
}

std::optional<std::uint32_t> whole_number(const std::string& text) {
  const std::optional<double> number = staleness_number(text);
  if (!number || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

std::optional<Staleness> parse_staleness(const std::string& text) {
  if (text.find(':') == std::string::npos) {
    const std::optional<double> mean = staleness_number(text);
    return mean ? std::optional(nearly_constant_staleness(*mean)) : std::nullopt;
  }
  StalenessHistogram counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const std::size_t colon = std::min(entry.find(':'), entry.size());
    const std::optional<std::uint32_t> staleness = whole_number(entry.substr(0, colon));
    const std::optional<std::uint32_t> count =
        colon < entry.size() ? whole_number(entry.substr(colon + 1)) : std::nullopt;
    if (!staleness || count.value_or(0) == 0) return std::nullopt;
    counts[*staleness] += *count;
    begin = end + 1;
  }
  return counted_staleness(counts);
}

}  // namespace rehearse::inline convergence
