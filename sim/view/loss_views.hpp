#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "convergence/loss_law.hpp"

namespace rehearse::inline view {

/// What a user's own runs say of a loss: the law, and one question to it.
struct LossReport {
  LossLaw law;
  std::size_t runs = 0;
  LossRun smallest, largest;  ///< by compute
  double parameters = 0, tokens = 0;
  Estimate<double> loss;
};

std::string to_table(const LossReport& report, int width);
/// `rehearse.loss/1`, and its JSON Schema.
std::string to_json(const LossReport& report);
nlohmann::ordered_json loss_schema();
std::string to_csv(const LossReport& report);

}  // namespace rehearse::inline view
