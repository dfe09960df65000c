#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/plans.hpp"
#include "model/exchange.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline planner {

/// What a layout's exchanges within layers take on a network that nothing else is on. Of those over
/// the tensor and the context group alone; it refers to the scenario.
class LayoutExchanges {
 public:
  LayoutExchanges(const Scenario& scenario, const Mesh& mesh);
  LayoutExchanges(const LayoutExchanges&) = delete;
  LayoutExchanges& operator=(const LayoutExchanges&) = delete;

  /// 0 of any other.
  Seconds time(const Exchange& exchange);

 private:
  void add_group(MeshAxis axis, const Mesh& mesh);

  const Scenario& scenario_;
  Bytes element_;  ///< of activations
  Machine machine_;
  std::optional<Plans> plans_;
  std::map<ExchangeAxis, GroupId> groups_;
  std::map<std::pair<double, std::pair<CollectiveKind, std::size_t>>, Seconds> times_;
};

}  // namespace rehearse::inline planner
