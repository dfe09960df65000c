#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/plans.hpp"
#include "model/exchange.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline planner {

/// Time of a layout's exchanges within layers on a network that nothing else is on; of experts'
/// those that all of their ranks make at once. It refers to the scenario.
class LayoutExchanges {
 public:
  LayoutExchanges(const Scenario& scenario, const Mesh& mesh);
  LayoutExchanges(const LayoutExchanges&) = delete;
  LayoutExchanges& operator=(const LayoutExchanges&) = delete;

  /// 0 of any other.
  Seconds time(const Exchange& exchange);

 private:
  /// `mesh`: all ranks, as the axis' exchanges see them.
  void add_group(ExchangeAxis what, MeshAxis axis, const Mesh& mesh);

  const Scenario& scenario_;
  Bytes element_, narrow_element_;  ///< an activation's, and a product's input's
  Machine machine_;
  std::optional<Plans> plans_;
  std::map<ExchangeAxis, GroupId> groups_;
  std::map<std::pair<double, std::pair<CollectiveKind, std::size_t>>, Seconds> times_;
};

}  // namespace rehearse::inline planner
