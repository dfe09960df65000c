#include "validation/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rehearse::inline validation {
namespace {

/// What a set of rivals takes, case by case: less is better.
struct Rivals {
  std::string name;
  std::vector<std::string> cases = {};
  std::vector<double> predicted = {}, measured = {};
};

/// Rates as times.
double cost_of(const std::string& metric, double value) {
  const bool rate = metric.find("per_s") != std::string::npos;
  return rate && value > 0 ? 1 / value : value;
}

const ComparedMetric* ranked(const ComparedCase& one) {
  const auto found = std::ranges::find_if(one.metrics, [](const ComparedMetric& metric) {
    return metric.kind() == ErrorKind::relative && !metric.metric.starts_with("memory.");
  });
  return found == one.metrics.end() ? nullptr : &*found;
}

void add(std::vector<Rivals>& sets, const ValidationCase& one, const ComparedMetric& metric) {
  auto set = std::ranges::find(sets, one.rivals, &Rivals::name);
  if (set == sets.end()) set = sets.insert(sets.end(), {.name = one.rivals});
  set->cases.push_back(one.name);
  set->predicted.push_back(cost_of(metric.metric, metric.predicted));
  set->measured.push_back(cost_of(metric.metric, metric.measured));
}

void count_pairs(const Rivals& set, RankingSummary& line) {
  for (std::size_t i = 0; i < set.measured.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double measured = std::log(set.measured[i] / set.measured[j]);
      if (std::abs(measured) <= std::log1p(kClear)) continue;
      ++line.pairs;
      if (measured * std::log(set.predicted[i] / set.predicted[j]) > 0) ++line.right_pairs;
    }
  }
}

RankingSummary summed(const Rivals& set) {
  const auto least = [](const std::vector<double>& costs) {
    return static_cast<std::size_t>(std::ranges::min_element(costs) - costs.begin());
  };
  const std::size_t first = least(set.predicted), best = least(set.measured);
  RankingSummary line{.rivals = set.name,
                      .cases = set.cases.size(),
                      .tau = kendall_tau_b(set.predicted, set.measured),
                      .regret = set.measured[first] / set.measured[best] - 1,
                      .first = set.cases[first],
                      .best = set.cases[best]};
  count_pairs(set, line);
  return line;
}

}  // namespace

double kendall_tau_b(const std::vector<double>& left, const std::vector<double>& right) {
  const auto sign = [](double difference) { return (difference > 0) - (difference < 0); };
  double order = 0, of_left = 0, of_right = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int one = sign(left[i] - left[j]), other = sign(right[i] - right[j]);
      order += one * other;
      of_left += one != 0;
      of_right += other != 0;
    }
  }
  return of_left == 0 || of_right == 0 ? 0 : order / std::sqrt(of_left * of_right);
}

std::vector<RankingSummary> summarize_rankings(const Validation& validation) {
  std::vector<Rivals> sets;
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      if (!one.held_out || one.rivals.empty()) continue;
      if (const ComparedMetric* metric = ranked(compared.cases[i])) add(sets, one, *metric);
    }
  }
  std::vector<RankingSummary> summaries;
  for (const Rivals& set : sets)
    if (set.cases.size() > 1) summaries.push_back(summed(set));
  return summaries;
}

}  // namespace rehearse::inline validation
