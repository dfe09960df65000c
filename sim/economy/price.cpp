#include "economy/price.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/date.hpp"
#include "base/error.hpp"

namespace rehearse::inline economy {
namespace {

Market market_of(const NodePrices& prices, Market asked) {
  return prices.in(asked) ? asked : Market::on_demand;
}

/// A month is as old as its first day.
std::string age_words(const std::string& date) {
  const auto first = first_day(date);
  check(first.has_value(), "a price of no date");
  const auto age = (today() - *first).count();
  if (age <= kOldPrice) return "";
  const bool is_a_day = date.size() == std::string("2026-07-20").size();
  return fmt::format(", {}{} days ago", is_a_day ? "" : "up to ", age);
}

}  // namespace

std::optional<double> usd_per_hour(const Node& node, Market market) {
  return node.prices.in(market_of(node.prices, market));
}

std::optional<double> usd_per_hour(const Cluster& cluster, Market market) {
  double sum = 0;
  for (const NodeGroup& group : cluster.groups) {
    const std::optional<double> price = usd_per_hour(group.node, market);
    if (!price) return std::nullopt;
    sum += *price * group.nodes;
  }
  return sum;
}

std::string price_words(const Node& node, Market market) {
  const NodePrices& prices = node.prices;
  const Market taken = market_of(prices, market);
  if (!prices.in(taken)) return "";
  std::string text =
      fmt::format("{:.2f} USD a node and hour, {}", *prices.in(taken), to_string(taken));
  if (taken == Market::reserved && prices.years > 0)
    text += fmt::format(" for {} year{}", prices.years, prices.years == 1 ? "" : "s");
  if (prices.date.empty()) return text + ", as given";
  return text + fmt::format(", {} in {}, {}{}", prices.instance, prices.region, prices.date,
                            age_words(prices.date));
}

std::vector<std::string> price_words(const Cluster& cluster, Market market) {
  std::vector<std::string> all;
  for (const NodeGroup& group : cluster.groups) {
    const std::string one = price_words(group.node, market);
    if (!one.empty() && std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
  return all;
}

}  // namespace rehearse::inline economy
