#include "planner/bound.hpp"

#include <nlohmann/json.hpp>

namespace rehearse::inline planner {

using Json = nlohmann::json;

Json to_json(const Bound& bound) {
  Json best = Json::array(), unknown = Json::array();
  for (const auto& [metric, figure] : bound.best) {
    best.push_back({static_cast<int>(metric), figure.value, figure.low, figure.high});
  }
  for (const auto& [metric, why] : bound.unknown) {
    unknown.push_back({static_cast<int>(metric), why});
  }
  return {{"key", bound.key},
          {"error", bound.error},
          {"code", static_cast<int>(bound.code)},
          {"best", best},
          {"unknown", unknown},
          {"capacity", bound.capacity},
          {"memory_at_least", bound.memory_at_least},
          {"in_pieces", bound.in_pieces},
          {"machine", bound.machine},
          {"node_price", bound.node_price},
          {"prices", bound.prices}};
}

Bound bound_from(const Json& json) {
  Bound bound{.key = json.at("key"),
              .error = json.at("error"),
              .code = static_cast<ExitCode>(json.at("code").get<int>()),
              .best = {},
              .unknown = {},
              .capacity = json.at("capacity"),
              .memory_at_least = json.at("memory_at_least"),
              .in_pieces = json.at("in_pieces"),
              .machine = json.at("machine"),
              .node_price = json.at("node_price"),
              .prices = json.at("prices")};
  for (const Json& one : json.at("best")) {
    bound.best[static_cast<Metric>(one.at(0).get<int>())] = {one.at(1), one.at(2), one.at(3)};
  }
  for (const Json& one : json.at("unknown")) {
    bound.unknown[static_cast<Metric>(one.at(0).get<int>())] = one.at(1);
  }
  return bound;
}

}  // namespace rehearse::inline planner
