#include <cmath>
#include <map>
#include <tuple>

#include "report/report.hpp"

namespace rehearse::inline report {
namespace {

CollectiveReport reported(const CollectiveAnswer& answer) {
  const Seconds time = answer.cost.total();
  const double spread = std::exp(answer.cost.uncertainty);
  return {.kind = to_string(answer.kind),
          .ranks = answer.ranks,
          .nodes = answer.nodes,
          .size = answer.size,
          .count = 1,
          .algorithm = answer.algorithm(),
          .protocol = answer.protocol(),
          .answered_by = to_string(answer.cost.basis),
          .outside = answer.cost.outside,
          .time = time,
          .interval = {time / spread, time * spread},
          .busbw = answer.busbw()};
}

}  // namespace

std::vector<CollectiveReport> collective_reports(const std::vector<CollectiveAnswer>& answers) {
  using Key = std::tuple<CollectiveKind, int, int, double, std::string, std::string, CostBasis>;
  struct Seen {
    std::size_t row;
    GroupId group;
  };
  std::map<Key, Seen> rows;
  std::vector<CollectiveReport> all;
  for (const CollectiveAnswer& one : answers) {
    const auto [at, fresh] = rows.try_emplace({one.kind, one.ranks, one.nodes, one.size.value(),
                                               one.algorithm(), one.protocol(), one.cost.basis},
                                              Seen{all.size(), one.group});
    if (fresh)
      all.push_back(reported(one));
    else if (at->second.group == one.group)
      ++all[at->second.row].count;
  }
  return all;
}

}  // namespace rehearse::inline report
