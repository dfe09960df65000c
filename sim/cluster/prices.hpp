#pragma once

#include <optional>
#include <string>

namespace rehearse::inline cluster {

/// How nodes are rented: `train.market`.
enum class Market { on_demand, reserved, spot };
std::string to_string(Market market);

/// A node's prices in USD per hour; nothing: not known.
struct NodePrices {
  std::optional<double> on_demand{};
  std::optional<double> reserved{};  ///< for `years`
  std::optional<double> spot{};      ///< while nobody pays more for it
  int years = 0;                     ///< 0: nobody says
  // These are in platforms/prices.yaml, and empty in a user's own.
  std::string cloud{}, instance{}, region{};
  std::string date{};  ///< when the cloud asked for them: a day, or a month ("2026-08")
  std::string source{};

  bool any() const { return on_demand || reserved || spot; }
  const std::optional<double>& in(Market market) const;
};

}  // namespace rehearse::inline cluster
